#include "src/ctl_show.h"

#include <stdio.h>
#include <string.h>

#include "base/tree.h"

static const char *
text_of(const struct tree_node *map, const char *path)
{
	return tree_text(tree_path(map, path), "");
}

static struct tree *
parse(const char *json, size_t len)
{
	struct tree *t = NULL;
	struct err err = {0};

	if (tree_parse(&t, "answer", json, len, &err) < 0 || tree_count(t) == 0)
		fprintf(stderr, "edgewayctl: bad answer from the daemon: %s\n", err.text);
	return t;
}

enum { DEPTH_SHOWN = 4, ROWS_SHOWN = 8 }; /* of a look at everything; `state` has it all */

static void
print_node(const struct tree_node *n, int depth)
{
	const char *name = n->key != NULL ? n->key : "-";
	unsigned rows = 0;

	if (n->kind == TREE_SCALAR) {
		printf("%*s%s%s %s\n", depth * 2, "", name, n->key != NULL ? ":" : "",
			n->text != NULL ? n->text : "");
		return;
	}
	printf("%*s%s:\n", depth * 2, "", name);
	tree_each(n, c)
	{
		if (depth < DEPTH_SHOWN && (n->kind == TREE_MAP || rows < ROWS_SHOWN))
			print_node(c, depth + 1);
		rows++;
	}
	if (rows > 0 && (depth >= DEPTH_SHOWN || (n->kind == TREE_LIST && rows > ROWS_SHOWN)))
		printf("%*s... %u in all, see edgewayctl state\n", depth * 2 + 2, "", rows);
}

int
ctl_show_status(const char *json, size_t len, const char *argument)
{
	struct tree *t = parse(json, len);
	const struct tree_node *top;
	bool ready;

	(void)argument;
	if (t == NULL)
		return 1;
	top = tree_document(t, 0);
	ready = tree_bool(tree_get(top, "ready"), false);
	printf("%s %s on %s: %s\n", text_of(top, "program"), text_of(top, "version"),
		text_of(top, "node"), ready ? "ready" : "NOT READY");
	tree_each(top, n)
	{
		if (strcmp(n->key, "program") != 0 && strcmp(n->key, "version") != 0 &&
			strcmp(n->key, "node") != 0)
			print_node(n, 1);
	}
	tree_free(&t);
	return ready ? 0 : 1;
}

int
ctl_show_services(const char *json, size_t len, const char *argument)
{
	struct tree *t = parse(json, len);

	(void)argument;
	if (t == NULL)
		return 1;
	printf("%-40s %-16s %s\n", "SERVICE", "ADDRESS", "PORTS (endpoints)");
	tree_each(tree_get(tree_document(t, 0), "services"), s)
	{
		auto_free char *name =
			xasprintf("%s/%s", text_of(s, "namespace"), text_of(s, "name"));

		printf("%-40s %-16s", name,
			text_of(s, "fakeIP")[0] != '\0' ? text_of(s, "fakeIP") : "(none left)");
		tree_each(tree_get(s, "ports"), p)
		{
			unsigned n = 0;

			tree_each(tree_get(p, "endpoints"), e) n += e != NULL;
			printf(" %s/%s(%u)", text_of(p, "port"), text_of(p, "mode"), n);
		}
		putchar('\n');
	}
	tree_free(&t);
	return 0;
}

/* A port that nothing serves has a line as well: an empty table says nothing. */
static void
show_endpoints_of(const struct tree_node *p, const char *name, const char *port)
{
	bool any = false;

	tree_each(tree_get(p, "endpoints"), e)
	{
		any = true;
		printf("%-40s %-10s %-24s %-7s %s\n", name, port, text_of(e, "address"),
			text_of(e, "via"), text_of(e, "node"));
	}
	if (!any && strcmp(text_of(p, "unreachable"), "0") == 0)
		printf("%-40s %-10s %s\n", name, port, "none (no pod, or none with an address)");
}

int
ctl_show_endpoints(const char *json, size_t len, const char *argument)
{
	struct tree *t = parse(json, len);
	bool found = false;

	if (t == NULL)
		return 1;
	printf("%-40s %-10s %-24s %-7s %s\n", "SERVICE", "PORT", "ENDPOINT", "VIA", "NODE");
	tree_each(tree_get(tree_document(t, 0), "services"), s)
	{
		auto_free char *name =
			xasprintf("%s/%s", text_of(s, "namespace"), text_of(s, "name"));

		if (argument != NULL && strcmp(argument, name) != 0)
			continue;
		found = true;
		tree_each(tree_get(s, "ports"), p)
		{
			auto_free char *port =
				xasprintf("%s/%s", text_of(p, "port"), text_of(p, "mode"));

			show_endpoints_of(p, name, port);
			if (strcmp(text_of(p, "unreachable"), "0") != 0)
				printf("%-40s %-10s %s endpoints that this node cannot dial (no "
				       "hostPort, or another site)\n",
					name, port, text_of(p, "unreachable"));
		}
	}
	tree_free(&t);
	if (!found && argument != NULL) {
		fprintf(stderr, "edgewayctl: no service %s on this node; write namespace/name\n",
			argument);
		return 1;
	}
	return 0;
}

static void
show_health_of(const struct tree_node *g)
{
	tree_each(tree_get(g, "endpoints"), e)
	{
		const char *fault = text_of(e, "fault");

		printf("%-40s %-6s %-6s %-24s %-7s %-8s %9s %6s  %s\n", text_of(g, "service"),
			text_of(g, "port"), text_of(g, "worker"), text_of(e, "address"),
			text_of(e, "tier"), text_of(e, "state"), text_of(e, "in_flight"),
			text_of(e, "idle"), fault);
	}
}

int
ctl_show_health(const char *json, size_t len, const char *argument)
{
	struct tree *t = parse(json, len);

	if (t == NULL)
		return 1;
	printf("%-40s %-6s %-6s %-24s %-7s %-8s %9s %6s  %s\n", "SERVICE", "PORT", "WORKER",
		"ENDPOINT", "TIER", "STATE", "IN FLIGHT", "IDLE", "FAULT");
	tree_each(tree_get(tree_get(tree_document(t, 0), "lb"), "endpoints"), g)
	{
		if (argument == NULL || strcmp(argument, text_of(g, "service")) == 0)
			show_health_of(g);
	}
	tree_free(&t);
	return 0;
}

static int
show_table(const char *json, size_t len, const char *list, const char *const *columns)
{
	struct tree *t = parse(json, len);

	if (t == NULL)
		return 1;
	for (const char *const *c = columns; *c != NULL; c++)
		printf("%-26s", *c);
	putchar('\n');
	tree_each(tree_path(tree_document(t, 0), list), row)
	{
		for (const char *const *c = columns; *c != NULL; c++)
			printf("%-26s", text_of(row, *c)[0] != '\0' ? text_of(row, *c) : "-");
		putchar('\n');
	}
	tree_free(&t);
	return 0;
}

int
ctl_show_upstreams(const char *json, size_t len, const char *argument)
{
	static const char *const columns[] = {
		"address", "state", "queries", "failures", "timeouts", "latency_ms", NULL};

	(void)argument;
	return show_table(json, len, "dns.forwarding", columns);
}

int
ctl_show_tokens(const char *json, size_t len, const char *argument)
{
	static const char *const columns[] = {"id", "node", "expires", NULL};

	(void)argument;
	return show_table(json, len, "tokens", columns);
}

int
ctl_show_nodes(const char *json, size_t len, const char *argument)
{
	static const char *const columns[] = {"node", "connected", "address", "version", "synced",
		"since", "pending", "revoked", "expires", "serial", NULL};

	(void)argument;
	return show_table(json, len, "nodes", columns);
}

int
ctl_show_tunnels(const char *json, size_t len, const char *argument)
{
	static const char *const columns[] = {"node", "state", "address", "streams", "rtt_ms",
		"bytes_in", "bytes_out", "since_s", "certificate_expires", NULL};

	(void)argument;
	return show_table(json, len, "tunnels", columns);
}
