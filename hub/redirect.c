#include "hub/redirect.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/netwatch.h"
#include "hub/detours.h"
#include "hub/listen.h"
#include "hub/redirect_probe.h"
#include "iptables/iptables.h"
#include "model/json.h"
#include "model/mesh.h"

/* Looked at again this often, since nodes join without a word of the cluster's; a large cluster takes 1 % of the time at most. */
enum { TICK_MS = 1000, POKE_MS = 100, COST_MOST = 100 };

enum { PROBLEM_MAX = 512 };
enum problem { PROBLEM_KERNEL, PROBLEM_WAY, PROBLEMS };

struct redirect {
	struct redirect_config config;
	struct door door; /* of all visits */
	struct hub_redirect now, next; /* in force; prepared */
	struct listen *listen, *next_listen;
	bool installed_by_next; /* redirect_prepare has made the rules, which abandoning takes back */
	struct divert *divert; /* NULL: not configured, and never was */
	struct netwatch *network;
	struct timer *tick;
	struct detours detours;
	struct redirect_probe *probe;
	uint32_t *own; /* addresses of this host, in order */
	size_t n_own;
	uint32_t primary; /* the first of them that others can send to, 0: none */
	uint64_t rests_ms; /* no refresh before, mono_ms */
	bool poked, draining;
	char problem[PROBLEMS][PROBLEM_MAX];
	char told[DETOURS_TEXT_MAX]; /* ambiguous addresses that the log has told of */
	uint64_t connections, strangers, failures;
};

/* --- this host ----------------------------------------------------------------------------- */

static void
read_own(struct redirect *r)
{
	struct ifaddrs *all;
	size_t n = 0, room = 0;

	if (getifaddrs(&all) < 0) /* those of before will do */
		return;
	r->primary = 0;
	for (const struct ifaddrs *i = all; i != NULL; i = i->ifa_next) {
		const struct sockaddr_in *in = (const void *)i->ifa_addr;
		uint32_t ip;

		if (in == NULL || in->sin_family != AF_INET)
			continue;
		ip = ntohl(in->sin_addr.s_addr);
		if (r->primary == 0 && (i->ifa_flags & (IFF_LOOPBACK | IFF_UP)) == IFF_UP)
			r->primary = ip;
		if (n == room) {
			room = room * 2 + 16;
			r->own = xrealloc(r->own, room * sizeof *r->own);
		}
		r->own[n++] = ip;
	}
	freeifaddrs(all);
	r->n_own = detours_sort(r->own, n);
}

/* --- the rules ------------------------------------------------------------------------------- */

static void
set_problem(struct redirect *r, enum problem kind, const char *text)
{
	if (strcmp(r->problem[kind], text) == 0)
		return;
	if (*text != '\0')
		log_warn("ingress", "ingress.redirect: %s", text);
	else
		log_info("ingress", "no longer so: ingress.redirect: %s", r->problem[kind]);
	snprintf(r->problem[kind], PROBLEM_MAX, "%s", text);
}

/* Where connections of others are led: never to loopback, where the kernel would drop them. */
static uint32_t
others_to(const struct redirect *r, const struct hub_redirect *want)
{
	uint32_t ip = ntohl(want->listen.in.sin_addr.s_addr);

	if (ip == INADDR_ANY)
		return r->primary;
	return ip >> 24 == 127 ? 0 : ip;
}

static struct divert_rules
rules_of(const struct redirect *r, const struct hub_redirect *want)
{
	uint32_t ip = ntohl(want->listen.in.sin_addr.s_addr);

	return (struct divert_rules){
		.mark = MESH_MARK,
		.local = ip == INADDR_ANY ? INADDR_LOOPBACK : ip,
		.others = others_to(r, want),
		.port = ntohs(want->listen.in.sin_port),
		.ports = want->ports,
		.n_ports = want->n_ports,
	};
}

static void
tell_ambiguous(struct redirect *r)
{
	if (strcmp(r->told, r->detours.ambiguous) == 0)
		return;
	snprintf(r->told, sizeof r->told, "%s", r->detours.ambiguous);
	if (r->told[0] != '\0')
		log_warn("ingress",
			"addresses that are not only one node's are not redirected, name the node "
			"instead (ingress.http, ingress.tcp) addresses=\"%s\"",
			r->told);
}

static void
aim_probe(struct redirect *r, const struct divert_rules *rules)
{
	struct addr to;

	if (rules->n_addresses == 0 || rules->n_ports == 0) {
		redirect_probe_to(r->probe, NULL);
		return;
	}
	to = addr_ipv4(rules->addresses[0], (uint16_t)rules->ports[0]);
	redirect_probe_to(r->probe, &to);
}

static void
refresh(struct redirect *r)
{
	struct divert_report before, after;
	struct divert_rules rules;
	struct err err = {0};
	int rc;

	if (r->draining || !r->now.on)
		return;
	if (r->config.known(r->config.arg))
		detours_find(&r->detours,
			&(struct detours_question){.cluster = r->config.cluster,
				.at_edge = r->config.at_edge,
				.arg = r->config.arg,
				.own = r->own,
				.n_own = r->n_own});
	rules = rules_of(r, &r->now);
	rules.addresses = r->detours.list;
	rules.n_addresses = r->detours.n;
	divert_report(r->divert, &before);
	if ((rc = divert_use(r->divert, &rules, &err)) < 0) {
		r->failures++;
		set_problem(r, PROBLEM_KERNEL, err.text);
		return;
	}
	divert_report(r->divert, &after);
	set_problem(r, PROBLEM_KERNEL, "");
	tell_ambiguous(r);
	if (after.changes != before.changes) {
		log_debug("ingress", "redirecting addresses=%zu ports=%zu", after.addresses,
			after.ports);
		aim_probe(r, &rules);
	}
}

static void
on_tick(void *arg)
{
	struct redirect *r = arg;
	uint64_t began = mono_ms(), ended;

	r->poked = false;
	refresh(r);
	ended = mono_ms();
	r->rests_ms = ended + COST_MOST * (ended - began);
	timer_start(r->tick, MAX((uint64_t)TICK_MS, r->rests_ms - ended), 0);
}

static void
on_network(void *arg)
{
	struct redirect *r = arg;

	read_own(r);
	redirect_poke(r);
	redirect_probe_again(r->probe);
}

void
redirect_poke(struct redirect *r)
{
	uint64_t now = mono_ms();

	if (!r->now.on || r->draining || r->poked)
		return;
	r->poked = true;
	timer_start(r->tick, MAX((uint64_t)POKE_MS, r->rests_ms > now ? r->rests_ms - now : 0), 0);
}

static void
add_rivals(struct redirect *r, struct buf *text)
{
	auto_buf struct buf rivals;

	buf_init(&rivals, BUF_UNLIMITED);
	divert_rivals(r->divert, &rivals);
	if (buf_len(&rivals) > 0)
		buf_printf(text, "; before ours are asked: %s", buf_str(&rivals));
}

static void
on_probed(void *arg, enum redirect_probe_state state)
{
	struct redirect *r = arg;
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	if (state == REDIRECT_PROBE_NO_ROUTE) {
		buf_adds(&text,
			"this host has no route to a node's address, so that connecting "
			"fails before any rule is asked: add one, the default route will do");
	} else if (state == REDIRECT_PROBE_LOST) {
		buf_adds(&text,
			"a connection of this host to a node's address does not arrive: "
			"rules of others come first, see nft list ruleset");
		add_rivals(r, &text);
	}
	set_problem(r, PROBLEM_WAY, buf_str(&text));
}

/* --- who comes --------------------------------------------------------------------------------- */

static bool
on_socket(void *arg, int fd)
{
	struct redirect *r = arg;
	struct caller caller = {.addr.len = sizeof caller.addr.un};
	char host[INET_ADDRSTRLEN], text[ADDR_TEXT_MAX], wanted[ADDR_TEXT_MAX];
	struct addr to;

	if (getpeername(fd, &caller.addr.sa, &caller.addr.len) < 0 || sock_original(fd, &to) < 0 ||
		redirect_probe_arrived(r->probe, &caller.addr))
		return false;
	if (!detours_have(&r->detours, ntohl(to.in.sin_addr.s_addr)) ||
		!detours_in(r->now.ports, r->now.n_ports, ntohs(to.in.sin_port))) {
		r->strangers++;
		log_limited(LOG_LEVEL_WARN, 6, "ingress",
			"closed a connection that the rules have not led here: this listener is "
			"not to be dialled itself caller=%s wanted=%s",
			addr_text(&caller.addr, text), addr_text(&to, wanted));
		return false;
	}
	caller.local = detours_in(r->own, r->n_own, ntohl(caller.addr.in.sin_addr.s_addr));
	inet_ntop(AF_INET, &to.in.sin_addr, host, sizeof host);
	if (!ingress_lead(r->config.ingress, &r->door,
		    &(struct ingress_led){.fd = fd,
			    .caller = &caller,
			    .host = host,
			    .port = ntohs(to.in.sin_port)}))
		return false;
	r->connections++;
	return true;
}

/* --- other settings ------------------------------------------------------------------------------ */

static bool
same_address(const struct hub_redirect *a, const struct hub_redirect *b)
{
	return a->on && b->on && a->listen.in.sin_port == b->listen.in.sin_port &&
		a->listen.in.sin_addr.s_addr == b->listen.in.sin_addr.s_addr;
}

static int
open_kernel(struct redirect *r, const struct hub_redirect *wanted, struct err *err)
{
	struct divert_rules rules;
	int rc = r->divert != NULL ? 0 : divert_open(&r->divert, r->config.loop, err);

	if (rc == 0 && r->network == NULL)
		rc = netwatch_start(&r->network, r->config.loop, on_network, r, err);
	if (rc < 0 || r->now.on)
		return rc;
	read_own(r);
	rules = rules_of(r, wanted);
	rc = divert_use(r->divert, &rules, err);
	r->installed_by_next = rc == 0;
	return rc;
}

int
redirect_prepare(struct redirect *r, const struct hub_redirect *wanted, struct err *err)
{
	int rc = 0;

	r->next = *wanted;
	if (!wanted->on)
		return 0;
	if (!same_address(&r->now, wanted))
		rc = listen_start(
			&r->next_listen, r->config.loop, &wanted->listen, on_socket, r, err);
	if (rc == 0)
		rc = open_kernel(r, wanted, err);
	if (rc == 0)
		return 0;
	redirect_abandon(r);
	if (rc == -EPERM)
		return err_set(err, rc,
			"ingress.redirect: the kernel's rules need CAP_NET_ADMIN: start the hub "
			"with it (a hub that ran without ingress.redirect has given it up)");
	return err_wrap(err, rc, "ingress.redirect");
}

void
redirect_abandon(struct redirect *r)
{
	listen_stop(&r->next_listen);
	if (r->installed_by_next)
		(void)divert_remove(r->divert, NULL);
	r->installed_by_next = false;
	r->next = r->now;
}

static void
switch_off(struct redirect *r)
{
	struct err err = {0};

	listen_stop(&r->listen);
	timer_cancel(r->tick);
	redirect_probe_to(r->probe, NULL);
	netwatch_stop(&r->network);
	if (r->divert != NULL && divert_remove(r->divert, &err) < 0)
		log_error("ingress", "ingress.redirect: %s", err.text);
	divert_close(&r->divert);
	detours_fini(&r->detours);
	r->told[0] = '\0';
	memset(r->problem, 0, sizeof r->problem);
}

void
redirect_commit(struct redirect *r)
{
	char text[ADDR_TEXT_MAX];

	r->now = r->next;
	r->installed_by_next = false;
	r->config.mark(r->config.arg, r->now.on ? MESH_MARK : 0);
	if (!r->now.on) {
		switch_off(r);
		return;
	}
	refresh(r);
	if (r->next_listen != NULL) {
		listen_stop(&r->listen);
		r->listen = take_ptr(&r->next_listen);
		log_info("ingress", "serving door=%s listen=%s", r->door.name,
			addr_text(&r->now.listen, text));
	}
	timer_start(r->tick, TICK_MS, 0);
}

struct redirect *
redirect_new(const struct redirect_config *config)
{
	struct redirect *r = xcalloc(1, sizeof *r);

	r->config = *config;
	r->door = (struct door){.kind = DOOR_REDIRECT, .name = "ingress.redirect"};
	r->tick = timer_new(config->loop, on_tick, r);
	r->probe = redirect_probe_new(config->loop, on_probed, r);
	return r;
}

void
redirect_drain(struct redirect *r)
{
	struct err err = {0};

	r->draining = true;
	listen_stop(&r->listen);
	redirect_probe_to(r->probe, NULL);
	if (r->now.on && divert_drain(r->divert, &err) < 0)
		log_warn("ingress", "ingress.redirect: %s", err.text);
}

void
redirect_free(struct redirect **out)
{
	struct redirect *r = take_ptr(out);

	if (r == NULL)
		return;
	redirect_abandon(r);
	if (r->divert != NULL)
		switch_off(r);
	timer_free(&r->tick);
	redirect_probe_free(&r->probe);
	free(r->own);
	free(r);
}

/* --- telling --------------------------------------------------------------------------------------- */

void
redirect_metrics(const struct redirect *r, struct metrics *m)
{
	struct divert_report d = {0};
	char label[48];

	if (!r->now.on)
		return;
	divert_report(r->divert, &d);
	metric_gauge(m, "edgeway_redirect_installed",
		"1 while the rules of ingress.redirect are in place.", NULL, d.installed ? 1 : 0);
	metric_gauge(m, "edgeway_redirect_arrives",
		"1 when a connection of this host's own came as it should; 0: not, or not tried.",
		NULL, redirect_probe_state(r->probe) == REDIRECT_PROBE_ARRIVES ? 1 : 0);
	metric_gauge(m, "edgeway_redirect_addresses", "Addresses of nodes that are redirected.",
		NULL, (double)r->detours.n);
	for (enum detours_why why = 0; why < DETOURS_WHYS; why++)
		metric_gauge(m, "edgeway_redirect_addresses_left_out",
			"Addresses of nodes that are not redirected, by the reason.",
			metric_label(label, sizeof label, "why", detours_why_text(why)),
			(double)r->detours.left_out[why]);
	metric_counter(m, "edgeway_redirect_connections_total", "Connections that were led here.",
		NULL, r->connections);
	metric_counter(m, "edgeway_redirect_strangers_total",
		"Connections to the listener that no rule had led there, closed.", NULL,
		r->strangers);
	metric_counter(m, "edgeway_redirect_changes_total",
		"Changes of the rules and their elements.", NULL, d.changes);
	metric_counter(m, "edgeway_redirect_repairs_total",
		"Times that others changed the table and it was put back.", NULL, d.repairs);
	metric_counter(m, "edgeway_redirect_failures_total", "Changes that the kernel refused.",
		NULL, r->failures);
}

void
redirect_state(const struct redirect *r, struct buf *out)
{
	static const char *const ways[] = {[REDIRECT_PROBE_NONE] = "untried",
		[REDIRECT_PROBE_ARRIVES] = "arrives",
		[REDIRECT_PROBE_NO_ROUTE] = "no route",
		[REDIRECT_PROBE_LOST] = "lost"};
	struct divert_report d = {0};
	char text[ADDR_TEXT_MAX];

	if (!r->now.on) {
		buf_adds(out, "null");
		return;
	}
	divert_report(r->divert, &d);
	buf_printf(out,
		"{\"table\":\"ip " DIVERT_TABLE "\",\"installed\":%s,\"listen\":\"%s\",\"pods\":%s,"
		"\"probe\":\"%s\",\"ports\":[",
		d.installed ? "true" : "false", addr_text(&r->now.listen, text),
		others_to(r, &r->now) != 0 ? "true" : "false",
		ways[redirect_probe_state(r->probe)]);
	for (size_t i = 0; i < r->now.n_ports; i++)
		buf_printf(out, "%s%u", i > 0 ? "," : "", (unsigned)r->now.ports[i]);
	buf_printf(out, "],\"addresses\":%zu,\"leftOut\":{", r->detours.n);
	for (enum detours_why why = 0; why < DETOURS_WHYS; why++)
		buf_printf(out, "%s\"%s\":%zu", why > 0 ? "," : "", detours_why_text(why),
			r->detours.left_out[why]);
	buf_adds(out, "},\"ambiguous\":");
	json_add_text(out, r->detours.ambiguous);
	buf_printf(out,
		",\"connections\":%llu,\"strangers\":%llu,\"repairs\":%llu,\"failures\":%llu,"
		"\"problem\":",
		(unsigned long long)r->connections, (unsigned long long)r->strangers,
		(unsigned long long)d.repairs, (unsigned long long)r->failures);
	json_add_text(out,
		r->problem[PROBLEM_KERNEL][0] != '\0' ? r->problem[PROBLEM_KERNEL]
						      : r->problem[PROBLEM_WAY]);
	buf_adds(out, "}");
}
