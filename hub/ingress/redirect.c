#include "hub/ingress/redirect_private.h"

#include <errno.h>
#include <string.h>

#include "base/core/log.h"
#include "model/mesh.h"

/* --- accepted connections ------------------------------------------------------------------- */

static bool
is_probe(struct redirect *r, const struct addr *peer)
{
	for (size_t i = 0; i < DIVERT_FAMILIES; i++)
		if (redirect_probe_arrived(r->ways[i].probe, peer))
			return true;
	return false;
}

static bool
is_wanted(const struct redirect *r, const struct in6_addr *ip, uint16_t port)
{
	for (size_t i = 0; i < r->now.n_ports; i++)
		if (r->now.ports[i] == port)
			return redirect_targets_have(&r->detours, ip);
	return false;
}

static bool
on_socket(void *arg, int fd)
{
	struct redirect *r = arg;
	struct caller caller;
	char host[IP_TEXT_MAX], text[ADDR_TEXT_MAX], wanted[ADDR_TEXT_MAX];
	struct in6_addr ip;
	struct addr to;

	if (caller_accept(&caller, fd, CALLER_REDIRECT, r->config.guard) < 0 ||
		is_probe(r, &caller.addr))
		return false;
	if (sock_original(fd, &to) <
		0) /* the kernel does not track it: no rule of ours was applied */
		to = r->now.listen;
	if (!addr_ip(&to, &ip) || !is_wanted(r, &ip, addr_port(&to))) {
		r->strangers++;
		log_limited(LOG_LEVEL_WARN, 6, "ingress",
			"closed a connection that the rules have not led here: this listener is "
			"not to be dialled itself caller=%s wanted=%s",
			addr_text(&caller.addr, text), addr_text(&to, wanted));
		return false;
	}
	if (!ingress_lead(r->config.ingress, &r->door,
		    &(struct ingress_led){.fd = fd,
			    .caller = &caller,
			    .host = ip_text(&ip, host),
			    .port = addr_port(&to)}))
		return false;
	r->connections++;
	return true;
}

/* --- changes of settings -------------------------------------------------------------------- */

static bool
same_address(const struct hub_redirect *a, const struct hub_redirect *b)
{
	struct in6_addr one, other;

	return a->on && b->on && addr_ip(&a->listen, &one) && addr_ip(&b->listen, &other) &&
		ip_same(&one, &other) && addr_port(&a->listen) == addr_port(&b->listen);
}

static int
open_kernel(struct redirect *r, const struct hub_redirect *wanted, struct err *err)
{
	struct divert_rules rules;
	int rc = redirect_attach(r, err);

	if (rc < 0 || r->now.on)
		return rc;
	rules = redirect_rules(r, wanted);
	rc = divert_use(r->divert, &rules, err);
	r->installed_by_next = rc == 0;
	return rc;
}

int
redirect_open(struct redirect *r, const struct addr *at, struct listen **listen, struct err *err)
{
	int fd, rc = sock_listen(at, SOCK_TRANSPARENT | SOCK_V6ONLY, &fd, err);

	if (rc == 0)
		*listen = listen_take(r->config.loop, fd, on_socket, r);
	return rc;
}

/* The same port at a different address cannot be bound beside the old listener: that one is closed,
 * and redirect_abandon opens it again. */
static int
open_listener(struct redirect *r, const struct hub_redirect *wanted, struct err *err)
{
	int rc;

	if (same_address(&r->now, wanted))
		return 0;
	rc = redirect_open(r, &wanted->listen, &r->next_listen, err);
	if (rc != -EADDRINUSE || r->listen == NULL ||
		addr_port(&wanted->listen) != addr_port(&r->now.listen))
		return rc;
	listen_stop(&r->listen);
	listen_stop(&r->sibling);
	return redirect_open(r, &wanted->listen, &r->next_listen, err);
}

int
redirect_prepare(struct redirect *r, const struct hub_redirect *wanted, struct err *err)
{
	int rc;

	if (r->draining)
		return 0;
	if (r->held && (r->now.on || wanted->on))
		return err_set(err, EBUSY,
			"ingress.redirect: another hub is to take over, and has the rules; try "
			"again once it has");
	r->next = *wanted;
	if (!wanted->on)
		return 0;
	rc = open_listener(r, wanted, err);
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
	struct err err = {0};

	listen_stop(&r->next_listen);
	if (r->now.on && !r->draining && r->listen == NULL &&
		redirect_open(r, &r->now.listen, &r->listen, &err) < 0)
		log_error("ingress", "ingress.redirect has lost its listener: %s", err.text);
	if (r->installed_by_next)
		(void)divert_remove(r->divert, NULL);
	r->installed_by_next = false;
	if (!r->now.on) {
		netwatch_stop(&r->network);
		divert_close(&r->divert);
	}
	r->next = r->now;
}

void
redirect_probe_none(struct redirect *r)
{
	for (size_t i = 0; i < DIVERT_FAMILIES; i++)
		redirect_probe_to(r->ways[i].probe, NULL);
}

static void
switch_off(struct redirect *r)
{
	struct err err = {0};

	listen_stop(&r->listen);
	listen_stop(&r->sibling);
	timer_cancel(r->tick);
	r->poked = false;
	redirect_probe_none(r);
	netwatch_stop(&r->network);
	if (r->divert != NULL && divert_remove(r->divert, &err) < 0)
		log_error("ingress", "ingress.redirect: %s", err.text);
	divert_close(&r->divert);
	redirect_targets_fini(&r->detours);
	r->told[0] = '\0';
	memset(r->problem, 0, sizeof r->problem);
}

void
redirect_commit(struct redirect *r)
{
	const bool same_port = addr_port(&r->now.listen) == addr_port(&r->next.listen);
	char text[ADDR_TEXT_MAX];

	if (r->draining)
		return;
	r->now = r->next;
	r->installed_by_next = false;
	r->config.mark(r->config.arg, r->now.on ? MESH_MARK : 0);
	if (!r->now.on) {
		switch_off(r);
		return;
	}
	if (r->next_listen != NULL) {
		listen_stop(&r->sibling); /* it follows `listen` */
		if (same_port)
			listen_stop(&r->listen);
	}
	redirect_refresh(r);
	if (r->next_listen != NULL) {
		listen_stop(&r->listen);
		r->listen = take_ptr(&r->next_listen);
		log_info("ingress", "serving door=%s listen=%s", r->door.name,
			addr_text(&r->now.listen, text));
	}
	redirect_poke(r);
}

/* The listener stays open: the other hub has the same socket, and nobody could bind the address
 * again while that one listens. */
void
redirect_hold(struct redirect *r, bool held)
{
	r->held = held;
	if (!r->now.on)
		return;
	if (r->listen != NULL)
		listen_room(r->listen, !held);
	if (r->sibling != NULL)
		listen_room(r->sibling, !held);
	if (!held) {
		redirect_refresh(r);
		redirect_poke(r);
		return;
	}
	timer_cancel(r->tick);
	r->poked = false;
	redirect_probe_none(r);
	netwatch_stop(&r->network);
	divert_close(&r->divert);
}

struct redirect *
redirect_new(const struct redirect_config *config)
{
	struct redirect *r = xcalloc(1, sizeof *r);

	r->config = *config;
	r->door = (struct door){.kind = DOOR_REDIRECT, .name = "ingress.redirect"};
	r->tick = timer_new(config->loop, redirect_on_tick, r);
	for (enum divert_family f = 0; f < DIVERT_FAMILIES; f++)
		r->ways[f] = (struct redirect_way){
			.redirect = r,
			.family = f,
			.probe = redirect_probe_new(config->loop, redirect_on_probed, &r->ways[f]),
		};
	return r;
}

void
redirect_drain(struct redirect *r)
{
	struct err err = {0};

	r->draining = true;
	listen_stop(&r->listen);
	listen_stop(&r->sibling);
	redirect_probe_none(r);
	if (r->divert != NULL && divert_drain(r->divert, &err) < 0)
		log_warn("ingress", "ingress.redirect: %s", err.text);
}

void
redirect_free(struct redirect **out)
{
	struct redirect *r = take_ptr(out);

	if (r == NULL)
		return;
	r->draining = true;
	redirect_abandon(r);
	switch_off(r);
	timer_free(&r->tick);
	for (size_t i = 0; i < DIVERT_FAMILIES; i++)
		redirect_probe_free(&r->ways[i].probe);
	free(r->own);
	free(r);
}
