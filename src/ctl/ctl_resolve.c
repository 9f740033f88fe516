#include "src/ctl/ctl_resolve.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <netdb.h>
#include <resolv.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/core/sock.h"
#include "model/json.h"
#include "src/common/ctl_answer.h"
#include "src/ctl/ctl_ask.h"

enum { ANSWER_MOST = 256 << 20, MESSAGE_BYTES = 65535, PATIENCE_S = 5 };

double
ctl_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1000 + (double)t.tv_nsec / 1e6;
}

/* --- asking --------------------------------------------------------------------------------- */

static bool
take_record(struct lookup *to, const ns_msg *m, const ns_rr *rr)
{
	char *value = to->records[to->n].value;
	const u_char *data = ns_rr_rdata(*rr);

	switch (ns_rr_type(*rr)) {
	case ns_t_a:
		if (ns_rr_rdlen(*rr) != 4)
			return false;
		inet_ntop(AF_INET, data, value, LOOKUP_TEXT);
		if (to->address[0] == '\0')
			snprintf(to->address, sizeof to->address, "%s", value);
		snprintf(to->records[to->n].type, 8, "A");
		break;
	case ns_t_cname:
		if (dn_expand(ns_msg_base(*m), ns_msg_end(*m), data, value, LOOKUP_TEXT) < 0)
			return false;
		snprintf(to->records[to->n].type, 8, "CNAME");
		break;
	default:
		return false;
	}
	to->records[to->n].ttl = ns_rr_ttl(*rr);
	return true;
}

static void
take_answer(struct lookup *to, const u_char *bytes, int len)
{
	static const char *const names[] = {
		"NOERROR", "FORMERR", "SERVFAIL", "NXDOMAIN", "NOTIMP", "REFUSED"};
	unsigned rcode;
	ns_msg m;
	ns_rr rr;

	if (ns_initparse(bytes, len, &m) < 0)
		return;
	rcode = (unsigned)ns_msg_getflag(m, ns_f_rcode);
	to->rcode = rcode < ARRAY_LEN(names) ? names[rcode] : "another error";
	if (ns_msg_count(m, ns_s_qd) > 0 && ns_parserr(&m, ns_s_qd, 0, &rr) == 0)
		snprintf(to->asked, sizeof to->asked, "%s", ns_rr_name(rr));
	for (int i = 0; i < ns_msg_count(m, ns_s_an) && to->n < ARRAY_LEN(to->records); i++)
		if (ns_parserr(&m, ns_s_an, i, &rr) == 0)
			to->n += take_record(to, &m, &rr);
}

/* libc gives no message for a search that found nothing. */
static const char *
ctl_resolve_failure(int why)
{
	return why == HOST_NOT_FOUND ? "NXDOMAIN"
		: why == NO_DATA     ? "NOERROR"
		: why == TRY_AGAIN   ? "no answer, or SERVFAIL"
				     : "no answer";
}

int
ctl_lookup(const char *server, const char *name, struct lookup *to, struct err *err)
{
	auto_free u_char *bytes = xmalloc(MESSAGE_BYTES);
	struct __res_state st;
	struct addr at;
	double began;
	int n;

	memset(to, 0, sizeof *to);
	memset(&st, 0, sizeof st);
	if (addr_parse(&at, server, 53, err) < 0 || at.sa.sa_family != AF_INET)
		return err_set(err, EPROTO, "the agent's DNS does not listen (\"%.64s\")", server);
	if (res_ninit(&st) < 0)
		return err_set(err, EIO, "resolv.conf cannot be read");
	st.nscount = 1;
	st.nsaddr_list[0] = at.in;
	st.retrans = PATIENCE_S;
	st.retry = 1;
	began = ctl_now_ms();
	n = res_nsearch(&st, name, ns_c_in, ns_t_a, bytes, MESSAGE_BYTES);
	to->ms = ctl_now_ms() - began;
	to->rcode = n < 0 ? ctl_resolve_failure(st.res_h_errno) : "no answer";
	snprintf(to->asked, sizeof to->asked, "%s", name);
	if (n > 0)
		take_answer(to, bytes, MIN(n, (int)MESSAGE_BYTES));
	res_nclose(&st);
	return 0;
}

/* --- what it means -------------------------------------------------------------------------- */

const struct tree_node *
ctl_service_at(const struct tree_node *services, const char *address)
{
	static const char *const keys[] = {"fakeIP", "clusterIP", "fakeIP6", "clusterIP6"};

	tree_each(tree_get(services, "services"), s)
		for (size_t i = 0; i < ARRAY_LEN(keys); i++)
			if (address[0] != '\0' && strcmp(ctl_text(s, keys[i]), address) == 0)
				return s;
	return NULL;
}

/* One sentence, with the remedy if the result is not as expected. */
static void
ctl_resolve_explain(
	struct buf *out, const struct tree_node *services, const struct lookup *l, const char *name)
{
	const struct tree_node *s = ctl_service_at(services, l->address);
	size_t first = strcspn(name, ".");
	unsigned alike = 0;

	if (s != NULL) {
		buf_printf(out, "fake IP of the service %s/%s: calls go through the agent",
			ctl_text(s, "namespace"), ctl_text(s, "name"));
		return;
	}
	if (l->address[0] != '\0') {
		buf_adds(out,
			"no service of the mesh: a name server of the node said so (edgewayctl "
			"upstreams)");
		return;
	}
	if (strcmp(l->rcode, "NOERROR") == 0) {
		buf_adds(out, "the name is there, and has no IPv4 address");
		return;
	}
	if (strcmp(l->rcode, "NXDOMAIN") != 0) {
		buf_adds(out,
			"nobody could say: edgewayctl upstreams shows who is asked for names "
			"outside the cluster");
		return;
	}
	buf_adds(out, "no such name");
	tree_each(tree_get(services, "services"), other) {
		if (strlen(ctl_text(other, "name")) != first ||
			strncmp(ctl_text(other, "name"), name, first) != 0 || alike++ == 3)
			continue;
		buf_printf(out, "%s%s.%s", alike == 1 ? "; did you mean " : ", ",
			ctl_text(other, "name"), ctl_text(other, "namespace"));
	}
	if (alike == 0)
		buf_adds(out, "; edgewayctl services lists those that this node knows");
}

int
ctl_ask_json(const char *socket, const char *target, struct tree **to, struct err *err)
{
	auto_buf struct buf answer;
	int rc;

	buf_init(&answer, ANSWER_MOST);
	rc = ctl_ask(socket, "GET", target, &answer, err);
	if (rc == 0 && (*to = ctl_parse(&answer)) == NULL)
		rc = err_set(err, EPROTO, "the daemon's answer cannot be read");
	return rc;
}

static void
write_lookup(struct buf *out, const struct lookup *l, const char *server)
{
	buf_adds(out, "\"asked\":");
	json_add_text(out, l->asked);
	buf_adds(out, ",\"server\":");
	json_add_text(out, server);
	buf_printf(out, ",\"rcode\":\"%s\",\"ms\":%.2f,\"records\":[", l->rcode, l->ms);
	for (unsigned i = 0; i < l->n; i++) {
		buf_printf(out, "%s{\"type\":\"%s\",\"ttl\":%u,\"value\":", i > 0 ? "," : "",
			l->records[i].type, l->records[i].ttl);
		json_add_text(out, l->records[i].value);
		buf_adds(out, "}");
	}
	buf_adds(out, "]");
}

int
ctl_resolve(const char *socket, const char *name, struct buf *answer, struct err *err)
{
	struct tree *state auto_tree = NULL, *services auto_tree = NULL;
	auto_buf struct buf meaning;
	const char *server;
	struct lookup l;
	int rc = ctl_ask_json(socket, "/debug/state", &state, err);

	buf_init(&meaning, BUF_UNLIMITED);
	if (rc == 0)
		rc = ctl_ask_json(socket, "/debug/services", &services, err);
	if (rc < 0)
		return rc;
	server = ctl_text(tree_document(state, 0), "dns.address");
	if ((rc = ctl_lookup(server, name, &l, err)) < 0)
		return rc;
	buf_adds(answer, "{\"name\":");
	json_add_text(answer, name);
	buf_adds(answer, ",");
	write_lookup(answer, &l, server);
	ctl_resolve_explain(&meaning, tree_document(services, 0), &l, name);
	buf_adds(answer, ",\"meaning\":");
	json_add_text(answer, buf_str(&meaning));
	buf_adds(answer, "}\n");
	return 0;
}
