#include "src/hub/hub_tracing.h"

#include <string.h>
#include <unistd.h>

#include "base/core/sock.h"

enum { FLUSH_MS = 2000, SERVERS_MAX = 3, FILE_MOST = 64 * 1024 };

/* Reads the lines with servers of a file in the format of resolv.conf(5). */
static size_t
read_servers(struct addr servers[SERVERS_MAX])
{
	auto_free char *text = NULL;
	char *rest, *line;
	size_t n = 0;

	if (file_read("/etc/resolv.conf", FILE_MOST, &text, NULL) < 0)
		return 0;
	for (line = strtok_r(text, "\n", &rest); line != NULL && n < SERVERS_MAX;
		line = strtok_r(NULL, "\n", &rest)) {
		char *words, *word = strtok_r(line, " \t\r", &words);

		if (word == NULL || strcmp(word, "nameserver") != 0)
			continue;
		word = strtok_r(NULL, " \t\r", &words);
		if (word != NULL && addr_parse(&servers[n], word, 53, NULL) == 0)
			n++;
	}
	return n;
}

int
hub_tracing_open(
	struct hub_tracing *t, struct loop *loop, const struct hub_options *o, struct err *err)
{
	const struct tracing_keys keys = TRACING_KEYS(o);
	char host[256] = "";
	int rc;

	if (gethostname(host, sizeof host - 1) < 0 || host[0] == '\0')
		memcpy(host, "hub", sizeof "hub");
	rc = tracing_keys_open(&t->exporter,
		&(struct tracing_config){.loop = loop, .who = {"edgeway-hub", host, false}}, &keys,
		err);
	if (rc < 0 || t->exporter == NULL)
		return rc;
	t->spans = (struct span_source){.on = true, .take = tracing_take, .arg = t->exporter};
	hub_tracing_use(t, o);
	return 0;
}

void
hub_tracing_use(struct hub_tracing *t, const struct hub_options *o)
{
	const struct tracing_keys keys = TRACING_KEYS(o);
	struct addr servers[SERVERS_MAX];

	if (t->exporter == NULL)
		return;
	tracing_keys_use(&keys, &t->spans);
	tracing_upstreams(t->exporter, servers, read_servers(servers));
}

void
hub_tracing_end(struct hub_tracing *t, loop_fn *stopped, void *arg)
{
	t->spans.on = false;
	tracing_stop(&t->exporter, FLUSH_MS, stopped, arg);
}
