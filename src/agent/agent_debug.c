/*
 * The agent's part of edgewayctl's views of single requests: a live view of requests
 * (lb/proxy/tap.h), and where the kernel has sent a flow. Both show addresses of clients, so they
 * are served on the Unix socket only.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/json.h"
#include "src/agent/agent_private.h"

enum { DEBUG_NAME_MAX = 512 };

static bool
debug_number(const struct admin_request *req, const char *name, uint64_t max, uint64_t *value)
{
	char text[24] = "";
	char *end;

	if (admin_query(req->query, name, text, sizeof text) < 0)
		return false;
	errno = 0;
	*value = strtoull(text, &end, 10);
	return text[strspn(text, "0123456789")] == '\0' && errno == 0 && *value <= max;
}

void
agent_debug_tap(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	struct agent *a = arg;
	char id[32] = "", service[DEBUG_NAME_MAX] = "";
	struct lb_tap_ask ask = {.id = id, .service = service};
	uint64_t port, last;
	int rc;

	if (admin_query(req->query, "id", id, sizeof id) < 0 || id[0] == '\0' ||
		admin_query(req->query, "service", service, sizeof service) < 0 ||
		!debug_number(req, "port", UINT16_MAX, &port) ||
		!debug_number(req, "after", UINT64_MAX, &ask.after) ||
		!debug_number(req, "last", 1, &last)) {
		reply->status = 400;
		buf_adds(&reply->body,
			"expected id (a word of the asker's own), and perhaps service "
			"(namespace/name), port (a client's), after (a number) and last=1\n");
		return;
	}
	ask.client_port = (uint16_t)port;
	ask.last = last == 1;
	reply->type = "application/json";
	rc = lb_tap(a->lb, &ask, &reply->body);
	if (rc == 0)
		return;
	reply->type = NULL;
	reply->status = 503;
	buf_adds(&reply->body,
		rc == -EBUSY ? "four others look on already: end one of them, or try again in some "
			       "seconds\n"
			     : "the proxy does not run\n");
}

void
agent_debug_flow(void *arg, const struct admin_request *req, struct admin_reply *reply)
{
	char to[ADDR_TEXT_MAX] = "", protocol[8] = "";
	struct iptables_flow flow = {0};
	struct err err = {0};
	struct addr server;
	uint64_t from;
	int rc;

	(void)arg;
	if (admin_query(req->query, "to", to, sizeof to) != 1 ||
		addr_parse(&server, to, 0, &err) < 0 || !addr_ip(&server, &flow.to) ||
		admin_query(req->query, "protocol", protocol, sizeof protocol) != 1 ||
		(strcmp(protocol, "tcp") != 0 && strcmp(protocol, "udp") != 0) ||
		!debug_number(req, "from", UINT16_MAX, &from)) {
		reply->status = 400;
		buf_adds(&reply->body,
			"expected protocol (tcp, udp), to (IP:PORT) and from (a port)\n");
		return;
	}
	flow.udp = strcmp(protocol, "udp") == 0;
	flow.from_port = (uint16_t)from;
	flow.to_port = addr_port(&server);
	if ((rc = iptables_flow(&flow, &err)) < 0) {
		reply->status = 500;
		buf_printf(&reply->body, "%s\n", err.text);
		return;
	}
	reply->type = "application/json";
	server = addr_of(&flow.server, flow.server_port);
	buf_printf(&reply->body, "{\"found\":%s,\"server\":\"%s\",\"replied\":%s}\n",
		rc == 1 ? "true" : "false", rc == 1 ? addr_text(&server, to) : "",
		flow.replied ? "true" : "false");
}
