#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sock.h"
#include "model/json.h"
#include "src/ctl_answer.h"
#include "src/ctl_resolve.h"

enum { PATIENCE_MS = 10 * 1000, TAKE_MOST = 16 << 20, TAKE_MS = 30 * 1000 };

struct url {
	char host[256];
	uint16_t port;
	char path[1024];
};

/* http://HOST[:PORT][/PATH]; the scheme may be left out. */
static int
read_url(const char *text, struct url *to, struct err *err)
{
	const char *at = strncmp(text, "http://", 7) == 0 ? text + 7 : text;
	size_t host = strcspn(at, ":/");
	unsigned port = 80;
	int used = 0;

	if (strstr(at, "://") != NULL || host == 0 || host >= sizeof to->host)
		return err_set(
			err, EINVAL, "expected http://NAME[:PORT][/PATH], not \"%.100s\"", text);
	memcpy(to->host, at, host);
	to->host[host] = '\0';
	at += host;
	if (*at == ':' &&
		(sscanf(at, ":%5u%n", &port, &used) != 1 || port < 1 || port > 65535 ||
			(at[used] != '\0' && at[used] != '/')))
		return err_set(err, EINVAL, "no port: \"%.20s\"", at);
	at += used;
	for (const char *c = at; *c != '\0'; c++)
		if (!isgraph((unsigned char)*c))
			return err_set(
				err, EINVAL, "a path has no blanks and no control characters");
	to->port = (uint16_t)port;
	snprintf(to->path, sizeof to->path, "%s", *at != '\0' ? at : "/");
	return 0;
}

/* --- the request itself ---------------------------------------------------------------- */

struct attempt {
	double connect_ms, first_ms, total_ms; /* < 0: not reached */
	int status;
	size_t bytes; /* head and body */
	const char *error; /* NULL: none */
};

static bool
wait_for(int fd, short events)
{
	struct pollfd p = {.fd = fd, .events = events};

	return poll(&p, 1, PATIENCE_MS) > 0;
}

static void
receive(int fd, double began, struct attempt *to)
{
	char head[64] = "", bytes[65536];
	ssize_t n;

	while (to->bytes < TAKE_MOST && ctl_now_ms() - began < TAKE_MS) {
		if (!wait_for(fd, POLLIN)) {
			to->error = "silence for 10 s";
			return;
		}
		n = read(fd, bytes, sizeof bytes);
		if (n < 0) {
			to->error = strerror(errno);
			return;
		}
		if (n == 0)
			break;
		if (to->bytes == 0) {
			to->first_ms = ctl_now_ms() - began;
			snprintf(head, sizeof head, "%.*s", (int)MIN(n, (ssize_t)sizeof head - 1),
				bytes);
		}
		to->bytes += (size_t)n;
	}
	to->total_ms = ctl_now_ms() - began;
	if (sscanf(head, "HTTP/1.%*d %d", &to->status) != 1)
		to->error = to->bytes == 0 ? "the connection was closed without an answer"
					   : "no HTTP/1 came back";
}

/* From this machine, as a process of the host: the rules hold for those, too. */
static void
attempt(const struct url *url, const char *address, struct attempt *to)
{
	auto_free char *request = xasprintf("GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: "
					    "edgewayctl-trace\r\nConnection: close\r\n\r\n",
		url->path, url->host);
	struct addr at;
	struct err err;
	auto_fd int fd = -1;
	double began = ctl_now_ms();
	int error;

	*to = (struct attempt){.connect_ms = -1, .first_ms = -1, .total_ms = -1};
	if (addr_parse(&at, address, url->port, &err) < 0 || sock_connect(&at, 0, &fd) < 0) {
		to->error = "cannot connect";
		return;
	}
	if (!wait_for(fd, POLLOUT)) {
		to->error = "the connection was not made within 10 s";
		return;
	}
	if ((error = sock_error(fd)) != 0) {
		to->error = strerror(error);
		return;
	}
	to->connect_ms = ctl_now_ms() - began;
	if (write(fd, request, strlen(request)) != (ssize_t)strlen(request))
		to->error = "the request was not taken";
	else
		receive(fd, began, to);
}

/* --- the way there ------------------------------------------------------------------------ */

static const struct tree_node *
port_of(const struct tree_node *service, uint16_t port)
{
	tree_each(tree_get(service, "ports"), p)
	{
		if ((int)ctl_number(p, "port") == port)
			return p;
	}
	return NULL;
}

/* How each worker sees the endpoint; those that have not used it yet say nothing. */
static void
write_health(
	struct buf *out, const struct tree_node *state, const char *service, const char *endpoint)
{
	const char *comma = "";

	tree_each(tree_path(state, "lb.endpoints"), g)
	{
		if (strcmp(ctl_text(g, "service"), service) != 0)
			continue;
		tree_each(tree_get(g, "endpoints"), e)
		{
			if (strcmp(ctl_text(e, "address"), endpoint) != 0)
				continue;
			buf_printf(out, "%sworker %s: %s", comma, ctl_text(g, "worker"),
				ctl_text(e, "state"));
			if (ctl_text(e, "fault")[0] != '\0')
				buf_printf(out, " (%s)", ctl_text(e, "fault"));
			comma = ", ";
		}
	}
	if (comma[0] == '\0')
		buf_adds(out, "not used yet");
}

static void
write_endpoints(struct buf *out, const struct tree_node *state, const struct tree_node *port,
	const char *service)
{
	const char *comma = "";

	buf_adds(out, ",\"endpoints\":[");
	tree_each(tree_get(port, "endpoints"), e)
	{
		auto_buf struct buf health;

		buf_init(&health, BUF_UNLIMITED);
		write_health(&health, state, service, ctl_text(e, "address"));
		buf_printf(out,
			"%s{\"address\":\"%s\",\"tier\":\"%s\",\"via\":\"%s\",\"node\":", comma,
			ctl_text(e, "address"), ctl_text(e, "tier"), ctl_text(e, "via"));
		json_add_text(out, ctl_text(e, "node"));
		buf_adds(out, ",\"health\":");
		json_add_text(out, buf_str(&health));
		buf_adds(out, "}");
		comma = ",";
	}
	tree_each(tree_get(port, "refused"), e)
	{
		auto_free char *why =
			xasprintf("REFUSED: it is %s (lb.allow)", ctl_text(e, "reason"));

		buf_printf(out, "%s{\"address\":\"%s\",\"tier\":\"\",\"via\":\"\",\"node\":", comma,
			ctl_text(e, "address"));
		json_add_text(out, ctl_text(e, "node"));
		buf_adds(out, ",\"health\":");
		json_add_text(out, why);
		buf_adds(out, "}");
		comma = ",";
	}
	buf_adds(out, "]");
}

/* Who may call it, in words; "" where everybody may. The request below is one of the node's own processes. */
static void
write_callers(struct buf *out, const struct tree_node *service)
{
	const struct tree_node *callers = tree_get(service, "callers");
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	if (callers != NULL) {
		const char *rule = ctl_text(service, "allowFrom");

		if (rule[0] != '\0')
			buf_printf(&text, "edgeway.io/allow-from \"%s\"; ", rule);
		if (ctl_number(service, "policies") > 0)
			buf_adds(&text, "NetworkPolicies; ");
		buf_printf(&text, "processes of this node: %s", ctl_text(callers, "node"));
		tree_each(tree_get(callers, "pods"), p)
			buf_printf(&text, ", pod %s: %s", ctl_text(p, "pod"), ctl_text(p, "call"));
	}
	buf_adds(out, ",\"callers\":");
	json_add_text(out, buf_str(&text));
}

/* Which rule takes it, in words. */
static void
write_way(struct buf *out, const struct tree_node *state, const struct tree_node *service,
	const struct tree_node *port)
{
	auto_free char *name =
		xasprintf("%s/%s", ctl_text(service, "namespace"), ctl_text(service, "name"));
	auto_buf struct buf way;

	buf_init(&way, BUF_UNLIMITED);
	if (service == NULL)
		buf_adds(&way, "none of ours: the connection goes straight there");
	else if (port == NULL)
		buf_adds(&way, "the service has no such port: refused");
	else
		buf_printf(&way, "table ip edgeway: to the proxy at %s, %s",
			ctl_text(state, "lb.listen"),
			strcmp(ctl_text(port, "mode"), "http") == 0
				? "an endpoint for each request"
				: "one endpoint for the connection, unless the kernel carries it");
	buf_adds(out, ",\"service\":");
	json_add_text(out, service != NULL ? name : "");
	buf_adds(out, ",\"rule\":");
	json_add_text(out, buf_str(&way));
	write_callers(out, service);
	write_endpoints(out, state, port, name);
}

static void
write_attempt(struct buf *out, const struct attempt *t)
{
	buf_printf(out,
		",\"status\":%d,\"connect_ms\":%.2f,\"first_byte_ms\":%.2f,\"total_ms\":%.2f,"
		"\"bytes\":%zu,\"error\":",
		t->status, t->connect_ms, t->first_ms, t->total_ms, t->bytes);
	json_add_text(out, t->error != NULL ? t->error : "");
}

int
ctl_trace(const char *socket, const char *text, struct buf *answer, struct err *err)
{
	struct tree *before auto_tree = NULL, *services auto_tree = NULL, *after auto_tree = NULL;
	const struct tree_node *service;
	struct attempt done = {.error = "the name has no address"};
	struct lookup l;
	struct url url = {0};
	int rc = read_url(text, &url, err);

	if (rc == 0)
		rc = ctl_ask_json(socket, "/debug/state", &before, err);
	if (rc == 0)
		rc = ctl_ask_json(socket, "/debug/services", &services, err);
	if (rc == 0)
		rc = ctl_lookup(
			ctl_text(tree_document(before, 0), "dns.address"), url.host, &l, err);
	if (rc < 0)
		return rc;
	if (l.address[0] != '\0')
		attempt(&url, l.address, &done);
	/* Now the workers know the endpoints. */
	if ((rc = ctl_ask_json(socket, "/debug/state", &after, err)) < 0)
		return rc;
	service = ctl_service_at(tree_document(services, 0), l.address);
	buf_adds(answer, "{\"url\":");
	json_add_text(answer, text);
	buf_adds(answer, ",\"asked\":");
	json_add_text(answer, l.asked);
	buf_printf(answer, ",\"rcode\":\"%s\",\"resolve_ms\":%.2f,\"address\":\"%s\",\"port\":%u",
		l.rcode, l.ms, l.address, url.port);
	write_way(answer, tree_document(after, 0), service, port_of(service, url.port));
	write_attempt(answer, &done);
	buf_adds(answer, "}\n");
	return 0;
}
