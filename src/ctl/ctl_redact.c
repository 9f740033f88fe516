/*
 * One pass over the bytes that tries each rule at each position, instead of parsers: the texts mix
 * YAML, JSON, shell and log lines, also nested in each other, and may be cut off anywhere.
 */
#include "src/ctl/ctl_redact.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

enum {
	KNOWN_MOST = 256,
	KNOWN_LEAST_BYTES = 8, /* a shorter one would also remove ordinary words */
	NAME_MOST = 64,
	HASH_DIGITS = 64, /* of a join token, before its secret */
	BRACKETS_MOST = 4096, /* bytes; an unterminated list is not treated as a list */
};

struct redact_text {
	struct redactor *r;
	struct buf *out;
	const char *begin, *at, *end;
};

static bool
redact_is_name(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '-' || c == '.';
}

/* base64, base64url, hex, and characters of passwords, except those that end a value in YAML, JSON,
 * a shell or a log line. */
static bool
redact_is_value(char c)
{
	return (unsigned char)c > ' ' && strchr("\"',;&\\<>()[]{}|", c) == NULL;
}

/* Returns whether the value does not look like a word of a sentence. */
static bool
redact_looks_random(const char *value, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if ((value[i] < 'a' || value[i] > 'z') && value[i] != ' ')
			return true;
	return false;
}

static void
redact_remember(struct redactor *r, const char *value, size_t len)
{
	if (len < KNOWN_LEAST_BYTES || r->n_known == KNOWN_MOST || !redact_looks_random(value, len))
		return;
	for (size_t i = 0; i < r->n_known; i++)
		if (strlen(r->known[i]) == len && memcmp(r->known[i], value, len) == 0)
			return;
	r->known = xrealloc(r->known, (r->n_known + 1) * sizeof *r->known);
	r->known[r->n_known++] = xstrndup(value, len);
}

/* Remembers each word, and the part after its `=`. */
static void
redact_remember_words(struct redactor *r, const char *text, size_t len)
{
	for (size_t i = 0, n; i < len; i += n + 1) {
		const char *word = text + i, *sign;

		for (n = 0; i + n < len && strchr(" \t\r\n,\"'[]{}", word[n]) == NULL;)
			n++;
		redact_remember(r, word, n);
		if ((sign = memchr(word, '=', n)) != NULL)
			redact_remember(r, sign + 1, n - (size_t)(sign + 1 - word));
	}
}

/* Replaces the next `len` bytes. */
static void
redact_drop(struct redact_text *t, size_t len, bool remember)
{
	if (remember)
		redact_remember(t->r, t->at, len);
	buf_adds(t->out, REDACTED);
	t->r->removed++;
	t->at += len;
}

static void
redact_keep(struct redact_text *t, size_t len)
{
	buf_add(t->out, t->at, len);
	t->at += len;
}

static size_t
redact_span(const struct redact_text *t, const char *from, bool (*is)(char c))
{
	size_t n = 0;

	while (from + n < t->end && is(from[n]))
		n++;
	return n;
}

static bool
redact_starts(const struct redact_text *t, const char *from, const char *word)
{
	size_t n = strlen(word);

	return (size_t)(t->end - from) >= n && strncasecmp(from, word, n) == 0;
}

/* --- PEM ------------------------------------------------------------------------------------ */

/* From "-----BEGIN EC PRIVATE KEY-----" to the end of the END line, or of the text if there is
 * none. Line feeds may be written as \n. */
static bool
redact_pem(struct redact_text *t)
{
	static const char begin[] = "-----BEGIN ", end[] = "-----END ";
	const char *line, *last;

	if (!redact_starts(t, t->at, begin))
		return false;
	line = memmem(
		t->at, MIN((size_t)(t->end - t->at), (size_t)NAME_MOST), "PRIVATE KEY-----", 16);
	if (line == NULL)
		return false;
	last = memmem(line, (size_t)(t->end - line), end, sizeof end - 1);
	if (last != NULL) {
		last += sizeof end - 1;
		last = memmem(last, (size_t)(t->end - last), "-----", 5);
	}
	redact_drop(t, (size_t)((last != NULL ? last + 5 : t->end) - t->at), false);
	return true;
}

/* --- secrets recognised by their form ------------------------------------------------------- */

static bool
redact_is_hex(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
}

/* <sha256 of the CA>.<secret>: the first part is public. */
static bool
redact_join_token(struct redact_text *t)
{
	size_t n;

	if (redact_span(t, t->at, redact_is_hex) != HASH_DIGITS || t->at + HASH_DIGITS >= t->end ||
		t->at[HASH_DIGITS] != '.')
		return false;
	n = redact_span(t, t->at + HASH_DIGITS + 1, redact_is_value);
	redact_keep(t, HASH_DIGITS + 1);
	if (n > 0)
		redact_drop(t, n, true);
	return true;
}

/* A JSON Web Token, as used by service accounts: three parts, the first of which is a JSON
 * object. */
static bool
redact_jwt(struct redact_text *t)
{
	size_t n = redact_starts(t, t->at, "eyJ") ? redact_span(t, t->at, redact_is_name) : 0;

	if (n < 20 || memchr(t->at, '.', n) == NULL)
		return false;
	redact_drop(t, n, true);
	return true;
}

/* "Bearer X", "Basic X": credentials in a header field. */
static bool
redact_scheme(struct redact_text *t)
{
	size_t word = redact_starts(t, t->at, "bearer ") ? 7
		: redact_starts(t, t->at, "basic ")      ? 6
							 : 0;
	size_t n = word > 0 ? redact_span(t, t->at + word, redact_is_value) : 0;

	if (n < KNOWN_LEAST_BYTES || !redact_looks_random(t->at + word, n))
		return false;
	redact_keep(t, word);
	redact_drop(t, n, true);
	return true;
}

static bool
redact_is_between(char c)
{
	return strchr(" ,\t\r\n", c) != NULL && c != '\0';
}

static bool
redact_is_scheme(char c)
{
	return isalnum((unsigned char)c) || strchr("+-.", c) != NULL;
}

/* The quote around the URL whose "://" comes next; '\0': none, and then a quote is a part of the
 * URL like any byte. */
static char
redact_url_quote(const struct redact_text *t)
{
	const char *at = t->at;

	while (at > t->begin && redact_is_scheme(at[-1]))
		at--;
	return at > t->begin && (at[-1] == '"' || at[-1] == '\'') ? at[-1] : '\0';
}

/* scheme://USER:PASSWORD@host, up to the last @, as programs parse it. */
static bool
redact_userinfo(struct redact_text *t)
{
	const char *at, *sign = NULL, *colon;
	char quote;

	if (!redact_starts(t, t->at, "://"))
		return false;
	quote = redact_url_quote(t);
	for (at = t->at + 3; at < t->end && (unsigned char)*at > ' ' && strchr("/?#", *at) == NULL;
		at++) {
		const char next = at + 1 < t->end ? at[1] : '\n';

		if (*at == '@')
			sign = at;
		else if (*at == '"' && (quote == '"' || strchr(" \n,:]}", next) != NULL))
			break; /* end of the URL, or of the JSON text that contains it */
		else if (*at == '\'' && quote == '\'' && next != quote)
			break;
		else if (*at == '\'' && quote == '\'')
			at++; /* it''s: in YAML a quote inside quotes */
	}
	if (sign == NULL)
		return false;
	redact_keep(t, 3);
	if ((colon = memchr(t->at, ':', (size_t)(sign - t->at))) != NULL)
		redact_remember(t->r, colon + 1, (size_t)(sign - colon - 1));
	redact_drop(t, (size_t)(sign - t->at), true);
	return true;
}

static bool
redact_known(struct redact_text *t)
{
	for (size_t i = 0; i < t->r->n_known; i++) {
		size_t n = strlen(t->r->known[i]);

		if ((size_t)(t->end - t->at) >= n && memcmp(t->at, t->r->known[i], n) == 0) {
			redact_drop(t, n, false);
			return true;
		}
	}
	return false;
}

/* --- secrets recognised by their name ------------------------------------------------------- */

static bool
redact_has_word(const char *name, size_t len, const char *word)
{
	size_t n = strlen(word);

	for (size_t i = 0; i + n <= len; i++)
		if (strncasecmp(name + i, word, n) == 0)
			return true;
	return false;
}

static bool
redact_names_secret(const char *name, size_t len)
{
	static const char *const words[] = {"password", "passwd", "passphrase", "secret", "token",
		"credential", "authorization", "cookie", "apikey", "api-key", "api_key",
		"privatekey", "private-key", "private_key", "signature"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (redact_has_word(name, len, words[i]))
			return true;
	return false;
}

/* tokenFile, token-file, TOKEN_FILE, secretPath: the location of a secret; but not "profile". */
static bool
redact_names_file(const char *name, size_t len)
{
	const char *last = name + len - 4;

	return len > 4 &&
		(strncasecmp(last, "file", 4) == 0 || strncasecmp(last, "path", 4) == 0) &&
		(strchr("_-.", last[-1]) != NULL ||
			(isupper((unsigned char)*last) && islower((unsigned char)last[-1])));
}

/* headers, tracing.headers, TRACING_HEADERS: each field may be a key. */
static bool
redact_names_headers(const char *name, size_t len)
{
	return len >= 7 && strncasecmp(name + len - 7, "headers", 7) == 0;
}

/* A quote, possibly after the backslash that escapes it within a JSON text. */
static size_t
redact_quote(const struct redact_text *t, const char *at)
{
	size_t escaped = at < t->end && *at == '\\';

	return at + escaped < t->end && (at[escaped] == '"' || at[escaped] == '\'') ? escaped + 1
										    : 0;
}

struct redact_value {
	const char *at;
	size_t len;
	char quote; /* '\0': unquoted */
	bool escaped; /* the quote is escaped */
	bool json; /* unquoted, after a quoted name */
	bool nested; /* that name's quote is escaped */
	bool line; /* unquoted, after a colon: YAML, or a header field, up to the line's end */
};

/* Finds the value after `: `, `=`, `": "`, or a blank if the name is a flag. False: there is
 * none. */
static bool
redact_find_value(const struct redact_text *t, size_t name_len, struct redact_value *v)
{
	const char *at = t->at + name_len;
	size_t quote = redact_quote(t, at), name_quote = quote;

	*v = (struct redact_value){0};
	at += quote;
	if (at < t->end && (*at == ':' || *at == '='))
		v->line = *at++ == ':';
	else if (quote != 0 || strncmp(t->at, "--", MIN(name_len, (size_t)2)) != 0 ||
		at >= t->end || *at != ' ')
		return false;
	while (at < t->end && (*at == ' ' || *at == '\t'))
		at++;
	if ((quote = redact_quote(t, at)) != 0) {
		at += quote;
		v->quote = at[-1];
		v->escaped = quote == 2;
	}
	v->at = at;
	v->json = name_quote != 0 && v->quote == '\0';
	v->nested = v->json && name_quote == 2;
	return at < t->end;
}

static bool
redact_value_ends(const struct redact_text *t, const struct redact_value *v, const char *at)
{
	if (v->escaped)
		return *at == '\\' && at + 1 < t->end && at[1] == v->quote;
	if (v->quote != '\0')
		return *at == v->quote;
	if (v->line)
		return strchr("\"\\", *at) != NULL;
	return (unsigned char)*at <= ' ' || strchr("\"'&\\<>", *at) != NULL;
}

static void
redact_measure(const struct redact_text *t, struct redact_value *v)
{
	const char *at = v->at;

	for (; at < t->end && *at != '\n' && *at != '\r'; at++) {
		bool doubled =
			v->quote == '\'' && at + 1 < t->end && at[0] == '\'' && at[1] == '\'';

		if (!doubled && redact_value_ends(t, v, at))
			break;
		at += doubled || (*at == '\\' && v->quote == '"');
	}
	v->len = (size_t)(MIN(at, t->end) - v->at);
	while (v->len > 0 && strchr(v->json ? " ,]}" : " ", v->at[v->len - 1]) != NULL)
		v->len--;
}

/* A word that means "none", or empty brackets. */
static bool
redact_is_none(const char *value, size_t len)
{
	static const char *const words[] = {"null", "true", "false", "~", "{}", "[]"};

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (len == strlen(words[i]) && strncmp(value, words[i], len) == 0)
			return true;
	return len == 0;
}

/* A list, an object, a file name or a number: the value of something called key, which may be a
 * map's key. */
static bool
redact_is_harmless(const char *value, size_t len)
{
	size_t n = 0;

	while (n < len && value[n] != '\0' && strchr("0123456789.,}]", value[n]) != NULL)
		n++;
	return redact_is_none(value, len) || strchr("/[{", value[0]) != NULL || n == len;
}

/* Length of the list or object that begins the value, in YAML or JSON; 0: it is neither, or has no
 * end. */
static size_t
redact_measure_brackets(const struct redact_text *t, const struct redact_value *v)
{
	const char *end = v->at + MIN((size_t)(t->end - v->at), (size_t)BRACKETS_MOST);
	unsigned depth = 0;
	bool first = true; /* a quote here begins a text instead of being part of one */
	char quote = '\0';

	for (const char *at = v->at; at < end; at++) {
		if (quote != '\0') {
			if (*at == '\\' && quote == '"' && !v->nested)
				at++;
			else if (*at == quote)
				quote = '\0';
		} else if (first && (*at == '"' || *at == '\'')) {
			quote = *at;
		} else if (*at == '[' || *at == '{') {
			depth++;
			first = true;
		} else if (depth == 0) {
			return 0;
		} else if (*at == ']' || *at == '}') {
			if (--depth == 0)
				return (size_t)(at + 1 - v->at);
		} else {
			first = *at == ':' || *at == '\\' || redact_is_between(*at);
		}
	}
	return 0;
}

/* Something called key may be the key of a map. */
static bool
redact_may_be_key(const char *value, size_t len)
{
	return len >= 16 && (memchr(value, '/', len) == NULL || len >= 40) &&
		memchr(value, ' ', len) == NULL;
}

/* Redacts the strings of a JSON list one by one, and those of objects by their names. False: it is
 * neither list nor object. */
static bool
redact_json(struct redact_text *t, const struct redact_value *v)
{
	struct redact_value item;
	size_t quote;

	if (!v->json || (*v->at != '[' && *v->at != '{'))
		return false;
	redact_keep(t, (size_t)(v->at + 1 - t->at));
	if (t->at[-1] == '{')
		return true;
	for (;;) {
		redact_keep(t, redact_span(t, t->at, redact_is_between));
		if ((quote = redact_quote(t, t->at)) == 0)
			return true;
		redact_keep(t, quote);
		item = (struct redact_value){
			.at = t->at, .quote = t->at[-1], .escaped = quote == 2};
		redact_measure(t, &item);
		if (item.len > 0)
			redact_drop(t, item.len, true);
		redact_keep(t, MIN(quote, (size_t)(t->end - t->at)));
	}
}

/* The column of the first text in this line, after the dashes of lists. */
static size_t
redact_column(const struct redact_text *t)
{
	const char *line = memrchr(t->begin, '\n', (size_t)(t->at - t->begin));
	size_t n = 0;

	line = line != NULL ? line + 1 : t->begin;
	while (line + n < t->at && (line[n] == ' ' || line[n] == '-'))
		n++;
	return n;
}

/* The lines of a YAML block, "name: |": those indented further, or list items in the same column. A
 * comment may have any indent. */
static void
redact_block(struct redact_text *t, size_t column)
{
	while (t->at < t->end) {
		const char *lf = memchr(t->at, '\n', (size_t)(t->end - t->at));
		size_t len = (size_t)((lf != NULL ? lf : t->end) - t->at), n = 0;

		if (len > 0 && t->at[len - 1] == '\r')
			len--;
		while (n < len && t->at[n] == ' ')
			n++;
		if (n < len && t->at[n] != '#' && (n < column || (n == column && t->at[n] != '-')))
			return;
		redact_keep(t, n);
		if (n < len)
			redact_drop(t, len - n, true);
		redact_keep(t, (size_t)((lf != NULL ? lf + 1 : t->end) - t->at));
	}
}

/* "|", ">-", "|2 # why" */
static bool
redact_begins_block(const struct redact_value *v)
{
	size_t n = 1;

	if (!v->line || v->quote != '\0' || v->len == 0 || strchr("|>", v->at[0]) == NULL)
		return false;
	while (n < v->len && strchr("+-0123456789", v->at[n]) != NULL)
		n++;
	return n == v->len || v->at[n] == ' ' || v->at[n] == '\t';
}

/* A list in the lines after its name. */
static bool
redact_begins_list(const struct redact_text *t, const struct redact_value *v, size_t column)
{
	const char *first = memchr(v->at, '\n', (size_t)(t->end - v->at));
	size_t n = 0;

	if (!v->line || v->quote != '\0' || (v->len > 0 && *v->at != '#') || first == NULL)
		return false;
	for (first++; first + n < t->end && (unsigned char)first[n] <= ' '; n++)
		if (first[n] == '\n') {
			first += n + 1;
			n = 0;
		}
	return first + n + 1 < t->end && first[n] == '-' && first[n + 1] == ' ' && n >= column;
}

/* False: nothing was done. */
static bool
redact_take_block(struct redact_text *t, const struct redact_value *v, bool certain)
{
	size_t column = redact_column(t);
	const char *lf = memchr(v->at, '\n', (size_t)(t->end - v->at)), *first = lf;
	size_t n;

	if (lf == NULL ||
		(!redact_begins_block(v) && !(certain && redact_begins_list(t, v, column))))
		return false;
	while (first < t->end && (unsigned char)*first <= ' ')
		first++;
	n = redact_span(t, first, redact_is_value);
	if (!certain && !redact_may_be_key(first, n))
		return false;
	redact_keep(t, (size_t)(lf + 1 - t->at));
	redact_block(t, column);
	return true;
}

/* After `=` it extends to the next flag, or the line's end. */
static size_t
redact_measure_rest(const struct redact_text *t, const struct redact_value *v)
{
	size_t n = 0;

	while (v->at + n < t->end && v->at[n] != '\n' &&
		(v->line || !redact_starts(t, v->at + n, " --")))
		n++;
	return n;
}

/* Redacts any value of `headers`: a list, a map, a text, or the lines below. */
static bool
redact_headers(struct redact_text *t, struct redact_value *v)
{
	const size_t column = redact_column(t), brackets = redact_measure_brackets(t, v);
	const char *quote = v->nested ? "\\\"" : v->json ? "\"" : "";
	bool more = false, none; /* the lines below are part of it; this line has nothing */

	if (v->quote != '\0') {
		redact_measure(t, v);
		more = v->at + v->len == t->end || v->at[v->len] == '\n';
	} else if (brackets > 0) {
		v->len = brackets;
	} else {
		v->len = redact_measure_rest(t, v);
		more = v->line;
	}
	if ((none = redact_is_none(v->at, v->len)) ? !more : v->json && brackets == 0)
		return false;
	redact_keep(t, (size_t)(v->at - t->at));
	if (none) {
		redact_keep(t, v->len);
	} else {
		redact_remember_words(t->r, t->at, v->len);
		buf_adds(t->out, quote); /* keep it valid JSON */
		redact_drop(t, v->len, false);
		buf_adds(t->out, quote);
	}
	if (more && t->at < t->end) {
		redact_keep(t, 1);
		redact_block(t, column);
	}
	return true;
}

/* authorization=Bearer X: the scheme is the first word of the value. */
static void
redact_extend_scheme(const struct redact_text *t, size_t name_len, struct redact_value *v)
{
	const char *blank = v->at + v->len;

	if (v->quote != '\0' || v->line || v->len == 0 || blank >= t->end || *blank != ' ' ||
		!redact_has_word(t->at, name_len, "authorization"))
		return;
	for (size_t i = 0; i < v->len; i++)
		if (!isalpha((unsigned char)v->at[i]))
			return;
	v->len += 1 + redact_span(t, blank + 1, redact_is_value);
}

/* request="GET /x?token=abc" of the access log: a query belongs to the client, whatever its names
 * are. */
static bool
redact_request(struct redact_text *t, size_t name_len)
{
	struct redact_value v;
	const char *mark;

	if (name_len != 7 || !redact_starts(t, t->at, "request") ||
		!redact_find_value(t, name_len, &v) || v.quote == '\0')
		return false;
	redact_measure(t, &v);
	if ((mark = memchr(v.at, '?', v.len)) == NULL || mark + 1 == v.at + v.len)
		return false;
	redact_keep(t, (size_t)(mark + 1 - t->at));
	redact_drop(t, (size_t)(v.at + v.len - t->at), false);
	return true;
}

static bool
redact_named(struct redact_text *t)
{
	size_t len = redact_span(t, t->at, redact_is_name);
	struct redact_value v;
	bool certain;

	if (len < 3 || len > NAME_MOST || redact_names_file(t->at, len))
		return false;
	if (redact_request(t, len))
		return true;
	if (redact_names_headers(t->at, len))
		return redact_find_value(t, len, &v) && redact_headers(t, &v);
	certain = redact_names_secret(t->at, len);
	if ((!certain && strncasecmp(t->at + len - 3, "key", 3) != 0) ||
		!redact_find_value(t, len, &v))
		return false;
	redact_measure(t, &v);
	redact_extend_scheme(t, len, &v);
	if (redact_take_block(t, &v, certain) || (certain && redact_json(t, &v)))
		return true;
	if (certain && v.line && !v.json)
		v.len = MAX(v.len, redact_measure_brackets(t, &v));
	if (certain ? redact_is_none(v.at, v.len)
		    : redact_is_harmless(v.at, v.len) || !redact_may_be_key(v.at, v.len))
		return false;
	redact_keep(t, (size_t)(v.at - t->at));
	redact_drop(t, v.len, true);
	return true;
}

/* ------------------------------------------------------------------------------------------ */

void
redact(struct redactor *r, struct buf *out, const char *text, size_t len)
{
	struct redact_text t = {r, out, text, text, text + len};

	while (t.at < t.end) {
		bool within = t.at > text && redact_is_name(t.at[-1]) && redact_is_name(*t.at);

		/* Join tokens and names are recognised only at the beginning of a word. */
		if (redact_pem(&t) || redact_userinfo(&t) || redact_known(&t))
			continue;
		if (!within &&
			(redact_join_token(&t) || redact_jwt(&t) || redact_scheme(&t) ||
				redact_named(&t)))
			continue;
		redact_keep(&t, 1);
	}
}

void
redactor_fini(struct redactor *r)
{
	for (size_t i = 0; i < r->n_known; i++) {
		explicit_bzero(r->known[i], strlen(r->known[i]));
		free(r->known[i]);
	}
	free(r->known);
	*r = (struct redactor){0};
}
