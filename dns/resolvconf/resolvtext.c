#include "dns/resolvconf/resolvtext.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/core/buf.h"

#define MARK "# edgeway: "
#define MARK_ADDED MARK "added: "
#define MARK_WAS MARK "was: "
#define NDOTS "ndots:5"

/* A line without its newline; `whole` includes the newline, if there is one. */
struct line {
	const char *at;
	size_t len, whole;
};

static bool
next_line(const char *text, size_t len, size_t *pos, struct line *l)
{
	const char *end;

	if (*pos >= len)
		return false;
	l->at = text + *pos;
	end = memchr(l->at, '\n', len - *pos);
	l->len = end != NULL ? (size_t)(end - l->at) : len - *pos;
	l->whole = l->len + (end != NULL ? 1 : 0);
	*pos += l->whole;
	return true;
}

static bool
resolvtext_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\f' || c == '\v';
}

/* Both resolvers accept a keyword only at the start of a line and followed by blank space. */
static bool
has_keyword(const struct line *l, const char *word)
{
	size_t n = strlen(word);

	return l->len > n && memcmp(l->at, word, n) == 0 && resolvtext_blank(l->at[n]);
}

static bool
has_prefix(const struct line *l, const char *prefix)
{
	return l->len >= strlen(prefix) && memcmp(l->at, prefix, strlen(prefix)) == 0;
}

/* The next word of the line after *pos. */
static bool
next_word(const struct line *l, size_t *pos, struct line *word)
{
	while (*pos < l->len && resolvtext_blank(l->at[*pos]))
		(*pos)++;
	word->at = l->at + *pos;
	while (*pos < l->len && !resolvtext_blank(l->at[*pos]))
		(*pos)++;
	word->len = (size_t)(l->at + *pos - word->at);
	return word->len > 0;
}

static bool
is_search(const struct line *l)
{
	return has_keyword(l, "search") || has_keyword(l, "domain");
}

/* --- search --------------------------------------------------------------------------------- */

/* Whether `word` is already in the list behind "search ". */
static bool
resolvtext_listed(struct buf *list, const struct line *word)
{
	struct line all = {buf_at(list), buf_len(list), 0}, one;
	size_t pos = strlen("search");

	while (next_word(&all, &pos, &one)) {
		if (one.len == word->len && strncasecmp(one.at, word->at, one.len) == 0)
			return true;
	}
	return false;
}

/* `held` is the effective search or domain line, or empty. */
static void
build_search(struct buf *out, const char *domain, const struct line *held)
{
	size_t pos = strlen("search");
	struct line word;

	buf_printf(out, "search default.svc.%s svc.%s %s", domain, domain, domain);
	while (held->len > pos && next_word(held, &pos, &word)) {
		if (buf_len(out) + 1 + word.len > strlen("search ") + RESOLVTEXT_SEARCH_MAX)
			break;
		if (!resolvtext_listed(out, &word)) {
			buf_add(out, " ", 1);
			buf_add(out, word.at, word.len);
		}
		if (has_keyword(held, "domain")) /* takes only one name */
			break;
	}
}

/* --- options -------------------------------------------------------------------------------- */

static bool
sets_ndots(const struct line *l)
{
	size_t pos = strlen("options");
	struct line word;

	while (has_keyword(l, "options") && next_word(l, &pos, &word)) {
		if (word.len > 6 && memcmp(word.at, "ndots:", 6) == 0)
			return true;
	}
	return false;
}

static void
build_options(struct buf *out, const struct line *l)
{
	size_t pos = strlen("options");
	struct line word;

	buf_adds(out, "options");
	while (next_word(l, &pos, &word)) {
		buf_add(out, " ", 1);
		if (word.len > 6 && memcmp(word.at, "ndots:", 6) == 0)
			buf_adds(out, NDOTS);
		else
			buf_add(out, word.at, word.len);
	}
}

/* --- conversion ----------------------------------------------------------------------------- */

/* Result of the first pass over the original. */
struct found {
	const char *active; /* start of the last search or domain line, or NULL */
	struct line held; /* the last of them that has a value */
	bool ndots;
};

static struct found
resolvtext_look(const char *text, size_t len)
{
	struct found f = {.held = {"", 0, 0}};
	struct line l, word;

	for (size_t pos = 0; next_line(text, len, &pos, &l);) {
		size_t in = strlen("search");

		if (is_search(&l)) {
			f.active = l.at;
			if (next_word(&l, &in, &word))
				f.held = l;
		}
		f.ndots |= sets_ndots(&l);
	}
	return f;
}

static void
add_line(struct buf *out, const char *text)
{
	buf_printf(out, MARK_ADDED "%s\n%s\n", text, text);
}

static void
replace_line(struct buf *out, const struct line *l, struct buf *with)
{
	buf_adds(out, MARK_WAS);
	buf_add(out, l->at, l->len);
	buf_add(out, "\n", 1);
	buf_add(out, buf_at(with), buf_len(with));
	if (l->whole > l->len)
		buf_add(out, "\n", 1);
}

char *
resolvtext_build(const char *original, size_t len, const char *cluster_domain, uint32_t address,
	size_t *out_len)
{
	struct found f = resolvtext_look(original, len);
	struct in_addr in = {.s_addr = htonl(address)};
	char server[sizeof "nameserver " + INET_ADDRSTRLEN] = "nameserver ";
	struct buf out, ours;
	struct line l;

	buf_init(&out, BUF_UNLIMITED);
	buf_init(&ours, BUF_UNLIMITED);
	inet_ntop(AF_INET, &in, server + strlen(server), INET_ADDRSTRLEN);
	add_line(&out, server);
	if (f.active == NULL) {
		build_search(&ours, cluster_domain, &f.held);
		add_line(&out, buf_str(&ours));
	}
	if (!f.ndots)
		add_line(&out, "options " NDOTS);
	for (size_t pos = 0; next_line(original, len, &pos, &l);) {
		buf_consume(&ours, buf_len(&ours));
		if (l.at == f.active)
			build_search(&ours, cluster_domain, &f.held);
		else if (sets_ndots(&l))
			build_options(&ours, &l);
		if (buf_len(&ours) > 0)
			replace_line(&out, &l, &ours);
		else
			buf_add(&out, l.at, l.whole);
	}
	buf_fini(&ours);
	*out_len = buf_len(&out);
	return buf_take_str(&out);
}

bool
resolvtext_is_ours(const char *text, size_t len)
{
	struct line l;

	for (size_t pos = 0; next_line(text, len, &pos, &l);) {
		if (has_prefix(&l, MARK_ADDED) || has_prefix(&l, MARK_WAS))
			return true;
	}
	return false;
}

/* Whether `l` is what we wrote below the mark, as far as this can be decided. */
static bool
is_replacement(const struct line *l, const struct line *was)
{
	if (is_search(was))
		return has_keyword(l, "search");
	return has_keyword(l, "options") && sets_ndots(l);
}

char *
resolvtext_strip(const char *text, size_t len, size_t *out_len)
{
	struct buf out;
	struct line l;

	buf_init(&out, BUF_UNLIMITED);
	for (size_t pos = 0; next_line(text, len, &pos, &l);) {
		struct line rest = l, below;
		size_t ahead = pos;
		bool more = next_line(text, len, &ahead, &below);

		if (has_prefix(&l, MARK_ADDED)) {
			rest.at += strlen(MARK_ADDED);
			rest.len -= strlen(MARK_ADDED);
			if (more && below.len == rest.len &&
				memcmp(below.at, rest.at, rest.len) == 0)
				pos = ahead;
		} else if (has_prefix(&l, MARK_WAS)) {
			rest.at += strlen(MARK_WAS);
			rest.len -= strlen(MARK_WAS);
			buf_add(&out, rest.at, rest.len);
			if (more && is_replacement(&below, &rest))
				pos = ahead;
			if (!more || pos != ahead || below.whole > below.len)
				buf_add(&out, "\n", 1);
		} else {
			buf_add(&out, l.at, l.whole);
		}
	}
	*out_len = buf_len(&out);
	return buf_take_str(&out);
}

/* --- upstreams ------------------------------------------------------------------------------ */

static bool
resolvtext_usable(const struct addr *a, uint32_t own)
{
	if (a->sa.sa_family == AF_INET) {
		uint32_t ip = ntohl(a->in.sin_addr.s_addr);

		return ip != INADDR_ANY && (own == 0 || ip != own);
	}
	return a->sa.sa_family == AF_INET6 && !IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr);
}

/* The word behind "nameserver"; false: another line, or nothing follows. */
static bool
names_server(const struct line *l, struct line *word)
{
	size_t in = strlen("nameserver");

	return has_keyword(l, "nameserver") && next_word(l, &in, word);
}

static bool
parse_server(const struct line *word, struct addr *a)
{
	char host[INET6_ADDRSTRLEN];

	if (word->len >= sizeof host)
		return false;
	memcpy(host, word->at, word->len);
	host[word->len] = '\0';
	memset(a, 0, sizeof *a);
	return strcspn(host, "[]") == word->len && strncmp(host, "unix:", 5) != 0 &&
		addr_parse(a, host, 53, NULL) >= 0;
}

size_t
resolvtext_upstreams(
	const char *text, size_t len, uint32_t own, struct addr *to, size_t n, size_t max)
{
	struct line l, word;

	for (size_t pos = 0; n < max && next_line(text, len, &pos, &l);) {
		struct addr a;
		bool known = false;

		if (!names_server(&l, &word) || !parse_server(&word, &a) ||
			!resolvtext_usable(&a, own))
			continue;
		for (size_t i = 0; i < n && !known; i++)
			known = to[i].len == a.len && memcmp(&to[i].sa, &a.sa, a.len) == 0;
		if (!known)
			to[n++] = a;
	}
	return n;
}

char *
resolvtext_unknown(const char *text, size_t len)
{
	struct line l, word;
	struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	for (size_t pos = 0; next_line(text, len, &pos, &l);) {
		struct addr a;

		if (!names_server(&l, &word) || parse_server(&word, &a))
			continue;
		if (buf_len(&out) + 1 + word.len > RESOLVTEXT_UNKNOWN_MAX)
			break;
		if (buf_len(&out) > 0)
			buf_add(&out, ",", 1);
		buf_add(&out, word.at, word.len);
	}
	return buf_take_str(&out);
}
