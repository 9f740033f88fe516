#include "hub/ingress/redirect_private.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "base/core/log.h"
#include "model/mesh.h"

/* --- accepted connections ------------------------------------------------------------------- */

static bool
on_socket(void *arg, int fd)
{
	struct redirect *r = arg;
	struct caller caller;
	char host[INET_ADDRSTRLEN], text[ADDR_TEXT_MAX], wanted[ADDR_TEXT_MAX];
	struct addr to;

	if (caller_accept(&caller, fd, CALLER_REDIRECT, r->config.guard) < 0 ||
		redirect_probe_arrived(r->probe, &caller.addr))
		return false;
	if (sock_original(fd, &to) <
		0) /* the kernel does not track it: no rule of ours was applied */
		to = r->now.listen;
	if (!redirect_targets_have(&r->detours, ntohl(to.in.sin_addr.s_addr)) ||
		!redirect_targets_in(r->now.ports, r->now.n_ports, ntohs(to.in.sin_port))) {
		r->strangers++;
		log_limited(LOG_LEVEL_WARN, 6, "ingress",
			"closed a connection that the rules have not led here: this listener is "
			"not to be dialled itself caller=%s wanted=%s",
			addr_text(&caller.addr, text), addr_text(&to, wanted));
		return false;
	}
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

/* --- changes of settings -------------------------------------------------------------------- */

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
	int rc = redirect_attach(r, err);

	if (rc < 0 || r->now.on)
		return rc;
	rules = redirect_rules(r, wanted);
	rc = divert_use(r->divert, &rules, err);
	r->installed_by_next = rc == 0;
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
	rc = listen_start(&r->next_listen, r->config.loop, &wanted->listen, on_socket, r, err);
	if (rc != -EADDRINUSE || r->listen == NULL ||
		wanted->listen.in.sin_port != r->now.listen.in.sin_port)
		return rc;
	listen_stop(&r->listen);
	return listen_start(&r->next_listen, r->config.loop, &wanted->listen, on_socket, r, err);
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
		listen_start(&r->listen, r->config.loop, &r->now.listen, on_socket, r, &err) < 0)
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

static void
switch_off(struct redirect *r)
{
	struct err err = {0};

	listen_stop(&r->listen);
	timer_cancel(r->tick);
	r->poked = false;
	redirect_probe_to(r->probe, NULL);
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
	if (!held) {
		redirect_refresh(r);
		redirect_poke(r);
		return;
	}
	timer_cancel(r->tick);
	r->poked = false;
	redirect_probe_to(r->probe, NULL);
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
	r->probe = redirect_probe_new(config->loop, redirect_on_probed, r);
	return r;
}

void
redirect_drain(struct redirect *r)
{
	struct err err = {0};

	r->draining = true;
	listen_stop(&r->listen);
	redirect_probe_to(r->probe, NULL);
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
	redirect_probe_free(&r->probe);
	free(r->own);
	free(r);
}
