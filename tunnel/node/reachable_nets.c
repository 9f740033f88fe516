#include "tunnel/node/reachable_nets.h"

#include <errno.h>
#include <string.h>

#include "model/check.h"

struct range { /* a range of private addresses, IPv4-mapped for IPv4 */
	const char *prefix;
	unsigned bits;
};

static const struct range private_ranges[] = {
	{"::ffff:10.0.0.0", 104},
	{"::ffff:172.16.0.0", 108},
	{"::ffff:192.168.0.0", 112},
	{"::ffff:100.64.0.0", 106},
	{"fc00::", 7},
};

static const char malformed[] = "expected a node or a network, and ports: edge-2, edge-2:22, "
				"192.168.1.0/24:9100-9105, [fd00:1::/64]:*";
static const char bad_ports[] = "expected :PORT, :FIRST-LAST or :* after the node or network";
static const char bad_name[] = "a node's name has letters a-z, digits, '-' and '.' only";
static const char too_wide[] = "the network is too wide: at least /12, /48 of IPv6";
static const char not_private[] =
	"not a private network (RFC 1918, 4193, 6598): what has a public address is reached at it";

static bool
reachable_nets_within(const struct in6_addr *a, const struct in6_addr *prefix, unsigned bits)
{
	unsigned whole = bits / 8, rest = bits % 8;

	if (memcmp(a, prefix, whole) != 0)
		return false;
	return rest == 0 || ((a->s6_addr[whole] ^ prefix->s6_addr[whole]) >> (8 - rest)) == 0;
}

static bool
is_private(const struct reachable_nets_entry *e)
{
	struct in6_addr prefix;

	for (size_t i = 0; i < ARRAY_LEN(private_ranges); i++)
		if (ip_parse(private_ranges[i].prefix, &prefix) &&
			e->bits >= private_ranges[i].bits &&
			reachable_nets_within(&e->prefix, &prefix, private_ranges[i].bits))
			return true;
	return false;
}

/* --- reading -------------------------------------------------------------------------------- */

static bool
read_number(const char **text, unsigned most, unsigned *n)
{
	const char *p = *text;

	for (*n = 0; *p >= '0' && *p <= '9' && *n <= most; p++)
		*n = *n * 10 + (unsigned)(*p - '0');
	if (p == *text || *n > most)
		return false;
	*text = p;
	return true;
}

/* p: the text after the colon; NULL: there is none. */
static bool
read_ports(const char *p, struct reachable_nets_entry *e)
{
	unsigned first = 1, last = UINT16_MAX;

	if (p == NULL) {
		e->ports[0] = (struct reachable_nets_ports){10250, 10250};
		e->ports[1] = (struct reachable_nets_ports){10255, 10255};
		return true;
	}
	if (strcmp(p, "*") != 0) {
		if (!read_number(&p, UINT16_MAX, &first))
			return false;
		last = first;
		if (*p == '-') {
			p++;
			if (!read_number(&p, UINT16_MAX, &last))
				return false;
		}
		if (*p != '\0')
			return false;
	}
	e->ports[0] = e->ports[1] = (struct reachable_nets_ports){(uint16_t)first, (uint16_t)last};
	return first > 0 && first <= last;
}

static const char *
read_network(const char *host, const char *slash, struct reachable_nets_entry *e)
{
	bool v6 = strchr(host, ':') != NULL;
	unsigned bits = v6 ? 128 : 32;

	if (slash != NULL && (!read_number(&slash, bits, &bits) || *slash != '\0'))
		return malformed;
	e->bits = bits + (v6 ? 0 : 96);
	if (bits < (v6 ? 4u : 1u) * REACHABLE_NETS_LEAST_BITS)
		return too_wide;
	return is_private(e) ? NULL : not_private;
}

static const char *
read_name(const char *name, struct reachable_nets_entry *e)
{
	size_t n = strlen(name);

	if (!check_subdomain(name, n) || name[strspn(name, "0123456789.")] == '\0')
		return bad_name;
	e->node = xstrdup(name);
	return NULL;
}

/* Cuts off the ports: they follow the only colon, or the brackets around an IPv6 address. */
static const char *
cut_ports(char *text, char **host, char **ports)
{
	char *colon = strchr(text, ':'), *end;

	*host = text;
	*ports = NULL;
	if (*text == '[') {
		*host = text + 1;
		if (colon == NULL || (end = strchr(text, ']')) == NULL || end < colon)
			return malformed;
		*end++ = '\0';
		if (*end == ':')
			*ports = end + 1;
		return *end == '\0' || *end == ':' ? NULL : malformed;
	}
	if (colon == NULL || strchr(colon + 1, ':') != NULL)
		return NULL; /* none, or a bare IPv6 address */
	*colon = '\0';
	*ports = colon + 1;
	return NULL;
}

static const char *
read_entry(struct reachable_nets_entry *e)
{
	auto_free char *text = xstrdup(e->text);
	char *host, *ports, *slash;
	const char *wrong = cut_ports(text, &host, &ports);

	if (wrong != NULL)
		return wrong;
	if (!read_ports(ports, e))
		return bad_ports;
	if ((slash = strchr(host, '/')) != NULL)
		*slash++ = '\0';
	if (ip_parse(host, &e->prefix))
		return read_network(host, slash, e);
	return slash != NULL || host > text ? malformed : read_name(host, e);
}

/* Visible ASCII: the text goes into logs and answers unchanged. */
static bool
reachable_nets_plain(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return false;
	return len > 0 && len <= REACHABLE_NETS_ENTRY_MAX;
}

int
reachable_nets_add(struct reachable_nets *v, const char *text, size_t len)
{
	struct reachable_nets_entry *e;

	if (v->n == REACHABLE_NETS_MAX || !reachable_nets_plain(text, len))
		return -EINVAL;
	if ((v->n & (v->n - 1)) == 0)
		v->list = xrealloc(v->list, MAX(v->n * 2, (size_t)1) * sizeof *v->list);
	e = &v->list[v->n++];
	*e = (struct reachable_nets_entry){.text = xstrndup(text, len)};
	e->wrong = read_entry(e);
	return 0;
}

int
reachable_nets_new(const char *const *entries, struct reachable_nets **out, struct err *err)
{
	struct reachable_nets *v = xcalloc(1, sizeof *v);
	int rc = 0;

	for (; entries != NULL && *entries != NULL && rc == 0; entries++) {
		if (v->n == REACHABLE_NETS_MAX)
			rc = err_set(err, EINVAL, "more than %d entries", REACHABLE_NETS_MAX);
		else if (reachable_nets_add(v, *entries, strlen(*entries)) < 0)
			rc = err_set(err, EINVAL, "\"%.80s\": %s", *entries, malformed);
		if (rc == 0 && v->list[v->n - 1].wrong != NULL)
			rc = err_set(
				err, EINVAL, "\"%.80s\": %s", *entries, v->list[v->n - 1].wrong);
	}
	if (rc < 0)
		reachable_nets_free(&v);
	*out = v;
	return rc;
}

int
reachable_nets_parse(const char *text, size_t len, struct reachable_nets **out, struct err *err)
{
	struct reachable_nets *v = xcalloc(1, sizeof *v);
	const char *end = text + len, *line;

	for (; text < end; text = line + 1) {
		if ((line = memchr(text, '\n', (size_t)(end - text))) == NULL)
			break;
		if (reachable_nets_add(v, text, (size_t)(line - text)) < 0)
			break;
	}
	if (text != end) {
		reachable_nets_free(&v);
		*out = NULL;
		return err_set(err, EINVAL,
			"expected at most %d lines of at most %d visible characters each",
			REACHABLE_NETS_MAX, REACHABLE_NETS_ENTRY_MAX);
	}
	*out = v;
	return 0;
}

void
reachable_nets_write(const struct reachable_nets *v, struct buf *out)
{
	for (size_t i = 0; i < v->n; i++)
		buf_printf(out, "%s\n", v->list[i].text);
}

void
reachable_nets_free(struct reachable_nets **out)
{
	struct reachable_nets *v = take_ptr(out);

	for (size_t i = 0; v != NULL && i < v->n; i++) {
		free(v->list[i].text);
		free(v->list[i].node);
	}
	if (v != NULL)
		free(v->list);
	free(v);
}

bool
reachable_nets_same(const struct reachable_nets *a, const struct reachable_nets *b)
{
	bool same = a->n == b->n;

	for (size_t i = 0; same && i < a->n; i++)
		same = strcmp(a->list[i].text, b->list[i].text) == 0;
	return same;
}

/* --- checking ------------------------------------------------------------------------------- */

bool
reachable_nets_covers(
	const struct reachable_nets_entry *e, const char *node, const struct in6_addr *ip)
{
	if (e->wrong != NULL)
		return false;
	if (e->node != NULL)
		return strcmp(e->node, node) == 0;
	return reachable_nets_within(ip, &e->prefix, e->bits);
}

bool
reachable_nets_opens(const struct reachable_nets_entry *e, uint16_t port)
{
	for (size_t i = 0; i < ARRAY_LEN(e->ports); i++)
		if (port >= e->ports[i].first && port <= e->ports[i].last)
			return true;
	return false;
}

const char *
reachable_nets_check(const struct reachable_nets *v, const struct reachable_nets_ask *ask)
{
	const char *why = "tunnel.reach does not name this target";

	for (size_t i = 0; i < v->n; i++) {
		if (!reachable_nets_covers(&v->list[i], ask->meant, &ask->ip))
			continue;
		if (ask->port == 0 || reachable_nets_opens(&v->list[i], ask->port))
			return NULL;
		why = "tunnel.reach does not open this port";
	}
	return why;
}
