#include "hub/ingress/redirect_probe.h"

#include <errno.h>
#include <unistd.h>

struct redirect_probe {
	struct timer *timer; /* for the next probe, or for the timeout of the present one */
	struct addr to;
	bool wanted;
	int fd; /* the present probe; -1: none */
	enum redirect_probe_state state;
	redirect_probe_fn *told;
	void *arg;
};

/* The probe has ended. */
static void
redirect_probe_settle(struct redirect_probe *p, enum redirect_probe_state state)
{
	bool news = state != p->state;

	if (p->fd >= 0)
		close(take_fd(&p->fd));
	p->state = state;
	timer_start(p->timer, REDIRECT_PROBE_MS, 0);
	if (news)
		p->told(p->arg, state);
}

static bool
no_route(int rc)
{
	return rc == -ENETUNREACH || rc == -EHOSTUNREACH || rc == -EACCES;
}

static void
on_timer(void *arg)
{
	struct redirect_probe *p = arg;
	int rc;

	if (p->fd >= 0) {
		redirect_probe_settle(p, REDIRECT_PROBE_LOST);
		return;
	}
	if (!p->wanted)
		return;
	rc = sock_connect(&p->to, 0, &p->fd);
	if (rc == 0)
		timer_start(p->timer, REDIRECT_PROBE_WAIT_MS, 0);
	else if (no_route(rc))
		redirect_probe_settle(p, REDIRECT_PROBE_NO_ROUTE);
	else if (sock_short_of(rc)) /* says nothing about the path */
		timer_start(p->timer, REDIRECT_PROBE_MS, 0);
	else
		redirect_probe_settle(p, REDIRECT_PROBE_LOST);
}

struct redirect_probe *
redirect_probe_new(struct loop *loop, redirect_probe_fn *told, void *arg)
{
	struct redirect_probe *p = xcalloc(1, sizeof *p);

	p->fd = -1;
	p->told = told;
	p->arg = arg;
	p->timer = timer_new(loop, on_timer, p);
	return p;
}

void
redirect_probe_free(struct redirect_probe **out)
{
	struct redirect_probe *p = take_ptr(out);

	if (p == NULL)
		return;
	timer_free(&p->timer);
	if (p->fd >= 0)
		close(p->fd);
	free(p);
}

void
redirect_probe_to(struct redirect_probe *p, const struct addr *to)
{
	if (p->fd >= 0)
		close(take_fd(&p->fd));
	p->wanted = to != NULL;
	if (to != NULL) {
		p->to = *to;
		timer_start(p->timer, 0, 0);
		return;
	}
	timer_cancel(p->timer);
	if (p->state == REDIRECT_PROBE_NONE)
		return;
	p->state = REDIRECT_PROBE_NONE;
	p->told(p->arg, p->state);
}

void
redirect_probe_again(struct redirect_probe *p)
{
	if (p->wanted && p->fd < 0)
		timer_start(p->timer, REDIRECT_PROBE_SOON_MS, 0);
}

bool
redirect_probe_arrived(struct redirect_probe *p, const struct addr *peer)
{
	struct addr own = {.len = sizeof own.in6};
	struct in6_addr from, peer_ip;

	if (p->fd < 0 || getsockname(p->fd, &own.sa, &own.len) < 0 || !addr_ip(&own, &from) ||
		!addr_ip(peer, &peer_ip) || !ip_same(&from, &peer_ip) ||
		addr_port(&own) != addr_port(peer))
		return false;
	redirect_probe_settle(p, REDIRECT_PROBE_ARRIVES);
	return true;
}

enum redirect_probe_state
redirect_probe_state(const struct redirect_probe *p)
{
	return p->state;
}
