#include "hub/ingress/redirect_private.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "base/core/inherited.h"
#include "base/core/log.h"
#include "base/core/special_addr.h"
#include "model/check.h"
#include "model/mesh.h"

/* Interval of refreshes, needed because nodes join without a change of the cluster's objects; in a
 * large cluster they take at most 1 % of the time. */
enum { TICK_MS = 1000, POKE_MS = 100, COST_MOST = 100 };

/* --- this host ------------------------------------------------------------------------------ */

void
redirect_read_own(struct redirect *r)
{
	const struct address_list *own = addresses_list(r->config.addresses);
	unsigned first[DIVERT_FAMILIES] = {UINT_MAX, UINT_MAX};
	size_t n = 0;

	memset(r->primary, 0, sizeof r->primary);
	r->own = xrealloc(r->own, (own->n + 1) * sizeof *r->own);
	for (size_t i = 0; i < own->n; i++) {
		const struct own_address *at = &own->list[i];
		const enum divert_family f = IN6_IS_ADDR_V4MAPPED(&at->ip) ? DIVERT_V4 : DIVERT_V6;

		if (at->broadcast)
			continue;
		r->own[n++] = at->ip;
		if (at->order >= first[f] || (at->flags & (IFF_LOOPBACK | IFF_UP)) != IFF_UP ||
			IN6_IS_ADDR_LINKLOCAL(&at->ip))
			continue;
		first[f] = at->order;
		r->primary[f] = at->ip;
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

/* 0.0.0.0, or :: */
static bool
is_any(const struct in6_addr *ip)
{
	return IN6_IS_ADDR_UNSPECIFIED(ip) ||
		(IN6_IS_ADDR_V4MAPPED(ip) && ip_to_v4(ip) == INADDR_ANY);
}

enum divert_family
redirect_family(const struct hub_redirect *want)
{
	return want->listen.sa.sa_family == AF_INET ? DIVERT_V4 : DIVERT_V6;
}

struct addr
redirect_listen_at(const struct hub_redirect *want, enum divert_family family)
{
	const uint16_t port = addr_port(&want->listen);
	struct in6_addr ip;
	bool any;

	if (family == redirect_family(want))
		return want->listen;
	addr_ip(&want->listen, &ip);
	any = is_any(&ip);
	if (family == DIVERT_V4)
		return addr_ipv4(any ? INADDR_ANY : INADDR_LOOPBACK, port);
	return addr_of(any ? &in6addr_any : &in6addr_loopback, port);
}

struct in6_addr
redirect_others_to(
	const struct redirect *r, const struct hub_redirect *want, enum divert_family family)
{
	const struct addr at = redirect_listen_at(want, family);
	struct in6_addr ip;

	addr_ip(&at, &ip);
	if (is_any(&ip))
		return r->primary[family];
	return ip_is_loopback(&ip) ? in6addr_any : ip;
}

struct divert_rules
redirect_rules(const struct redirect *r, const struct hub_redirect *want)
{
	struct divert_rules rules = {
		.mark = MESH_MARK,
		.port = addr_port(&want->listen),
		.ports = want->ports,
		.n_ports = want->n_ports,
	};

	for (enum divert_family f = 0; f < DIVERT_FAMILIES; f++) {
		const struct addr at = redirect_listen_at(want, f);

		if (f != redirect_family(want) && r->sibling == NULL)
			continue;
		addr_ip(&at, &rules.local[f]);
		if (is_any(&rules.local[f]))
			rules.local[f] =
				f == DIVERT_V4 ? ip_of_v4(INADDR_LOOPBACK) : in6addr_loopback;
		rules.others[f] = redirect_others_to(r, want, f);
	}
	return rules;
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
aim_probes(struct redirect *r)
{
	for (enum divert_family f = 0; f < DIVERT_FAMILIES; f++) {
		const struct in6_addr *first = redirect_targets_first(&r->detours, f == DIVERT_V6);
		struct addr to;

		if (first != NULL && r->now.n_ports > 0)
			to = addr_of(first, (uint16_t)r->now.ports[0]);
		redirect_probe_to(
			r->ways[f].probe, first != NULL && r->now.n_ports > 0 ? &to : NULL);
	}
}

/* Once something of the other family is to be redirected there is a listener for it, and at once
 * where our predecessor had one. */
static void
tend_sibling(struct redirect *r, struct buf *trouble)
{
	const bool v6 = redirect_family(&r->now) == DIVERT_V4;
	const struct addr at = redirect_listen_at(&r->now, v6 ? DIVERT_V6 : DIVERT_V4);
	struct err err;

	if (r->sibling != NULL ||
		(redirect_targets_first(&r->detours, v6) == NULL &&
			inherited_count(&at, SOCK_STREAM) == 0) ||
		redirect_open(r, &at, &r->sibling, &err) == 0)
		return;
	redirect_targets_leave(&r->detours, v6);
	buf_printf(trouble, "%s addresses of nodes are not redirected: %s", v6 ? "IPv6" : "IPv4",
		err.text);
}

void
redirect_refresh(struct redirect *r)
{
	struct divert_report before = {0}, after;
	struct divert_rules rules;
	auto_buf struct buf trouble;
	struct err err = {0};
	int rc;

	buf_init(&trouble, BUF_UNLIMITED);
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
	tend_sibling(r, &trouble);
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
	if (after.refused6[0] != '\0' && redirect_targets_first(&r->detours, true) != NULL) {
		redirect_targets_leave(&r->detours, true);
		buf_printf(
			&trouble, "IPv6 addresses of nodes are not redirected: %s", after.refused6);
	}
	set_problem(r, PROBLEM_FAMILY, buf_str(&trouble));
	tell_ambiguous(r);
	if (after.changes != before.changes) {
		log_debug("ingress", "redirecting addresses=%zu ports=%zu", r->detours.n,
			after.ports);
		aim_probes(r);
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
	for (size_t i = 0; i < DIVERT_FAMILIES; i++)
		redirect_probe_again(r->ways[i].probe);
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
add_rivals(enum divert_family family, struct buf *text)
{
	auto_buf struct buf rivals;

	buf_init(&rivals, BUF_UNLIMITED);
	divert_rivals(family, &rivals);
	if (buf_len(&rivals) > 0)
		buf_printf(text, "; before ours are asked: %s", buf_str(&rivals));
}

void
redirect_on_probed(void *arg, enum redirect_probe_state state)
{
	struct redirect_way *way = arg;
	const char *ip = way->family == DIVERT_V6 ? "IPv6 " : "";
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	if (state == REDIRECT_PROBE_NO_ROUTE) {
		buf_printf(&text,
			"this host has no route to a node's %saddress, so that connecting fails "
			"before any rule is asked: add one, the default route will do",
			ip);
	} else if (state == REDIRECT_PROBE_LOST) {
		buf_printf(&text,
			"a connection of this host to a node's %saddress does not arrive: rules of "
			"others come first, see nft list ruleset",
			ip);
		add_rivals(way->family, &text);
	}
	set_problem(way->redirect, PROBLEM_WAY + way->family, buf_str(&text));
}
