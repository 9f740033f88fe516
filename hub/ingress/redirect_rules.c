#include "hub/ingress/redirect_private.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "model/mesh.h"

/* Interval of refreshes, needed because nodes join without a change of the cluster's objects; in a
 * large cluster they take at most 1 % of the time. */
enum { TICK_MS = 1000, POKE_MS = 100, COST_MOST = 100 };

/* --- this host ------------------------------------------------------------------------------ */

void
redirect_read_own(struct redirect *r)
{
	const struct address_list *own = addresses_list(r->config.addresses);
	unsigned first = UINT_MAX;
	size_t n = 0;

	r->primary = 0;
	r->own = xrealloc(r->own, (own->n + 1) * sizeof *r->own);
	for (size_t i = 0; i < own->n; i++) {
		const struct own_address *at = &own->list[i];
		const struct endpoint e = {.ip = at->ip};
		const struct addr a = endpoint_addr(&e);

		if (a.sa.sa_family != AF_INET || at->broadcast)
			continue;
		r->own[n++] = ntohl(a.in.sin_addr.s_addr);
		if (at->order >= first || (at->flags & (IFF_LOOPBACK | IFF_UP)) != IFF_UP)
			continue;
		first = at->order;
		r->primary = r->own[n - 1];
	}
	r->n_own = redirect_targets_sort(r->own, n);
}

int
redirect_attach(struct redirect *r, struct err *err)
{
	int rc = r->divert != NULL ? 0 : divert_open(&r->divert, r->config.loop, err);

	if (rc < 0 || r->network != NULL)
		return rc;
	redirect_read_own(r);
	return netwatch_start(&r->network, r->config.loop, redirect_on_network, r, err);
}

/* --- the rules ------------------------------------------------------------------------------ */

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

uint32_t
redirect_others_to(const struct redirect *r, const struct hub_redirect *want)
{
	uint32_t ip = ntohl(want->listen.in.sin_addr.s_addr);

	if (ip == INADDR_ANY)
		return r->primary;
	return ip >> 24 == 127 ? 0 : ip;
}

struct divert_rules
redirect_rules(const struct redirect *r, const struct hub_redirect *want)
{
	uint32_t ip = ntohl(want->listen.in.sin_addr.s_addr);

	return (struct divert_rules){
		.mark = MESH_MARK,
		.local = ip == INADDR_ANY ? INADDR_LOOPBACK : ip,
		.others = redirect_others_to(r, want),
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

void
redirect_refresh(struct redirect *r)
{
	struct divert_report before = {0}, after;
	struct divert_rules rules;
	struct err err = {0};
	int rc;

	if (r->draining || r->held || !r->now.on)
		return;
	rc = redirect_attach(r, &err);
	if (r->config.known(r->config.arg))
		redirect_targets_find(&r->detours,
			&(struct redirect_targets_question){.cluster = r->config.cluster,
				.at_edge = r->config.at_edge,
				.arg = r->config.arg,
				.own = r->own,
				.n_own = r->n_own});
	rules = redirect_rules(r, &r->now);
	rules.addresses = r->detours.list;
	rules.n_addresses = r->detours.n;
	if (rc == 0) {
		divert_report(r->divert, &before);
		rc = divert_use(r->divert, &rules, &err);
	}
	if (rc < 0) {
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

void
redirect_on_tick(void *arg)
{
	struct redirect *r = arg;
	uint64_t began = mono_ms(), ended;

	r->poked = false;
	redirect_refresh(r);
	ended = mono_ms();
	r->rests_ms = ended + COST_MOST * (ended - began);
	timer_start(r->tick, MAX((uint64_t)TICK_MS, r->rests_ms - ended), 0);
}

void
redirect_on_network(void *arg)
{
	struct redirect *r = arg;

	redirect_read_own(r);
	redirect_poke(r);
	redirect_probe_again(r->probe);
}

void
redirect_poke(struct redirect *r)
{
	uint64_t now = mono_ms();

	if (!r->now.on || r->draining || r->held || r->poked)
		return;
	r->poked = true;
	timer_start(r->tick, MAX((uint64_t)POKE_MS, r->rests_ms > now ? r->rests_ms - now : 0), 0);
}

static void
add_rivals(struct buf *text)
{
	auto_buf struct buf rivals;

	buf_init(&rivals, BUF_UNLIMITED);
	divert_rivals(&rivals);
	if (buf_len(&rivals) > 0)
		buf_printf(text, "; before ours are asked: %s", buf_str(&rivals));
}

void
redirect_on_probed(void *arg, enum redirect_probe_state state)
{
	struct redirect *r = arg;
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	if (state == REDIRECT_PROBE_NO_ROUTE) {
		buf_adds(&text,
			"this host has no route to a node's address, so that connecting fails "
			"before any rule is asked: add one, the default route will do");
	} else if (state == REDIRECT_PROBE_LOST) {
		buf_adds(&text,
			"a connection of this host to a node's address does not arrive: rules of "
			"others come first, see nft list ruleset");
		add_rivals(&text);
	}
	set_problem(r, PROBLEM_WAY, buf_str(&text));
}
