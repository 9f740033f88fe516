#include "hub/replicas/peer_names.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "base/net/resolve.h"

enum {
	FILE_MAX = 64 * 1024,
	SERVERS_MAX = 3, /* the limit of resolv.conf(5) */
	SEARCH_MAX = 6,
	TIMEOUT_MS = 1000,
	TRIES = 2,
};

struct name {
	struct peer_names *of;
	char *text; /* as configured */
	char *host;
	uint16_t port;
	bool numeric, asking, asked;
	bool bad; /* the last DNS response was an error */
	bool told; /* the error was logged */
	size_t n; /* number of its addresses */
	unsigned next; /* index in the search list */
	char problem[128];
};

struct peer_names {
	struct peer_names_config config;
	struct timer *again;
	/* NULL until first needed, and while queries of an older file are open */
	struct resolve *resolve;
	char *file; /* contents that `resolve` was made from */
	struct addr servers[SERVERS_MAX];
	char *search[SEARCH_MAX];
	size_t n_servers, n_search;
	struct name names[PEER_NAMES_MAX];
	size_t n;
};

/* --- resolv.conf ---------------------------------------------------------------------------- */

static void
forget_file(struct peer_names *p)
{
	for (size_t i = 0; i < p->n_search; i++)
		free(take_ptr(&p->search[i]));
	p->n_search = p->n_servers = 0;
	free(take_ptr(&p->file));
}

static void
take_line(struct peer_names *p, char *line)
{
	char *rest, *word = strtok_r(line, " \t\r", &rest);
	bool search;

	if (word == NULL)
		return;
	if (strcmp(word, "nameserver") == 0) {
		word = strtok_r(NULL, " \t\r", &rest);
		if (word != NULL && p->n_servers < SERVERS_MAX &&
			addr_parse(&p->servers[p->n_servers], word, 53, NULL) == 0)
			p->n_servers++;
		return;
	}
	search = strcmp(word, "search") == 0;
	if (!search && strcmp(word, "domain") != 0)
		return;
	for (size_t i = 0; i < p->n_search; i++) /* the last search line counts */
		free(take_ptr(&p->search[i]));
	p->n_search = 0;
	while (p->n_search < SEARCH_MAX && (word = strtok_r(NULL, " \t\r", &rest)) != NULL)
		p->search[p->n_search++] = xstrdup(word);
}

/* A changed file needs a new resolver, once no query waits for the old one. */
static void
read_file(struct peer_names *p)
{
	const char *path =
		p->config.resolv_conf != NULL ? p->config.resolv_conf : "/etc/resolv.conf";
	auto_free char *text = NULL, *lines = NULL;
	char *rest, *line;
	struct resolve_config config = {.timeout_ms = TIMEOUT_MS, .tries = TRIES};
	struct err err = {0};

	if (file_read(path, FILE_MAX, &text, NULL) < 0)
		text = xstrdup("");
	if (p->resolve != NULL && strcmp(text, p->file) == 0)
		return;
	forget_file(p);
	resolve_free(&p->resolve);
	p->file = take_ptr(&text);
	lines = xstrdup(p->file);
	for (line = strtok_r(lines, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest))
		take_line(p, line);
	config.servers = p->servers;
	config.n_servers = p->n_servers;
	if (resolve_new(&p->resolve, p->config.loop, &config, &err) < 0)
		log_limited(LOG_LEVEL_ERROR, 6, "hub", "names of peers cannot be resolved: %s",
			err.text);
}

/* --- asking --------------------------------------------------------------------------------- */

static void peer_names_ask(struct name *n);

static void
peer_names_plan(struct peer_names *p)
{
	uint64_t ms = PEER_NAMES_AGAIN_MS;
	bool any = false;

	for (size_t i = 0; i < p->n; i++) {
		if (p->names[i].asking)
			return;
		any |= !p->names[i].numeric;
		if (p->names[i].n == 0)
			ms = PEER_NAMES_SOON_MS;
	}
	if (any)
		timer_start(p->again, ms, 0);
}

static void
peer_names_answered(struct name *n, const struct addr *addrs, size_t count)
{
	struct peer_names *p = n->of;

	n->asking = false;
	n->asked = true;
	if (count > 0) {
		if (n->told)
			log_info("hub", "the name of peers is resolved again name=%s addresses=%zu",
				n->text, count);
		n->told = false;
		n->problem[0] = '\0';
		n->n = count;
		p->config.found(p->config.arg, (size_t)(n - p->names), addrs, count);
	} else if (!n->told) {
		n->told = true;
		log_warn("hub",
			"the name of peers cannot be resolved; other replicas behind it are not "
			"asked for nodes name=%s error=\"%s\"",
			n->text, n->problem);
	}
	peer_names_plan(p);
}

/* A dotted name is tried first as it is, other names last (ndots:1). */
static bool
more_to_try(const struct name *n)
{
	return n->next <= n->of->n_search;
}

static void
on_found(void *arg, int status, const struct addr *addrs, size_t count)
{
	struct name *n = arg;

	if (status == -ECANCELED)
		return;
	if (status < 0)
		snprintf(n->problem, sizeof n->problem, "%s",
			status == -ENOENT ? "there is no such name" : strerror(-status));
	if (status < 0 && more_to_try(n))
		peer_names_ask(n);
	else
		peer_names_answered(n, addrs, status < 0 ? 0 : count);
}

static void
peer_names_ask(struct name *n)
{
	struct peer_names *p = n->of;
	bool dotted = strchr(n->host, '.') != NULL;
	unsigned at = n->next++, plain = dotted ? 0 : (unsigned)p->n_search;
	auto_free char *whole = at == plain
		? xstrdup(n->host)
		: xasprintf("%s.%s", n->host, p->search[dotted ? at - 1 : at]);

	resolve_host(p->resolve, whole, n->port, on_found, n);
}

static void
on_again(void *arg)
{
	struct peer_names *p = arg;

	read_file(p);
	for (size_t i = 0; i < p->n; i++) {
		struct name *n = &p->names[i];

		if (n->asking || (n->numeric && n->asked))
			continue;
		if (p->resolve == NULL) {
			snprintf(n->problem, sizeof n->problem, "no resolver can be made");
			n->asked = true;
			continue;
		}
		n->asking = true;
		n->next = 0;
		peer_names_ask(n);
	}
	peer_names_plan(p);
}

/* --- life cycle ----------------------------------------------------------------------------- */

static int
add_name(struct peer_names *p, const char *text, struct err *err)
{
	struct name *n = &p->names[p->n];
	const char *colon = strrchr(text, ':');
	struct addr a;

	if (p->n == PEER_NAMES_MAX)
		return err_set(err, EINVAL, "peers: more than %d names", PEER_NAMES_MAX);
	*n = (struct name){.of = p, .text = xstrdup(text), .port = p->config.port};
	p->n++;
	n->numeric = addr_parse(&a, text, p->config.port, NULL) == 0;
	if (n->numeric) {
		char host[INET6_ADDRSTRLEN] = "";

		if (a.sa.sa_family == AF_UNIX)
			return err_set(
				err, EINVAL, "peers: \"%.80s\" is no address of a hub", text);
		inet_ntop(a.sa.sa_family,
			a.sa.sa_family == AF_INET ? (const void *)&a.in.sin_addr
						  : (const void *)&a.in6.sin6_addr,
			host, sizeof host);
		n->host = xstrdup(host);
		n->port = addr_port(&a);
		return 0;
	}
	n->host = colon != NULL ? xstrndup(text, (size_t)(colon - text)) : xstrdup(text);
	if (colon != NULL)
		n->port = (uint16_t)strtoul(colon + 1, NULL, 10);
	if (n->host[0] == '\0' || n->port == 0)
		return err_set(err, EINVAL, "peers: \"%.80s\": expected HOST or HOST:PORT", text);
	return 0;
}

int
peer_names_new(const struct peer_names_config *config, struct peer_names **out, struct err *err)
{
	struct peer_names *p = xcalloc(1, sizeof *p);
	int rc = 0;

	p->config = *config;
	p->again = timer_new(config->loop, on_again, p);
	for (const char *const *at = config->names; *at != NULL && rc == 0; at++)
		rc = add_name(p, *at, err);
	if (rc < 0)
		peer_names_free(&p);
	else
		timer_start(p->again, 0, 0);
	*out = p;
	return rc;
}

void
peer_names_free(struct peer_names **out)
{
	struct peer_names *p = take_ptr(out);

	if (p == NULL)
		return;
	resolve_free(&p->resolve);
	forget_file(p);
	timer_free(&p->again);
	for (size_t i = 0; i < p->n; i++) {
		free(p->names[i].text);
		free(p->names[i].host);
	}
	free(p);
}

bool
peer_names_asked(const struct peer_names *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (!p->names[i].asked)
			return false;
	return true;
}

const char *
peer_names_problem(const struct peer_names *p, size_t i, const char **name)
{
	if (i >= p->n)
		return NULL;
	*name = p->names[i].text;
	return p->names[i].problem;
}
