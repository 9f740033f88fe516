/*
 * Was the connection refused, or the hub unreachable? The operator has to know, and base/http/ws
 * cannot tell. So the same address is dialled once more without sending anything, and the kernel's
 * error is the reason. Nothing waits for this; the next attempt to connect is independent.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/core/sock.h"
#include "meta/client/hub_client_private.h"

enum { LATER_MS = 20 };

void
hub_client_why_end(struct hub_client *f)
{
	timer_cancel(f->why_later);
	watch_stop(&f->why_watch);
	if (f->why_fd >= 0)
		close(take_fd(&f->why_fd));
}

static void
hub_client_why_tell(struct hub_client *f, int error)
{
	char text[ADDR_TEXT_MAX];

	hub_client_why_end(f);
	if (error == 0 || strstr(f->error, WS_REFUSED_OR_UNREACHABLE) == NULL)
		return; /* reachable by now, or another error has replaced it */
	snprintf(f->error, sizeof f->error, "cannot connect to %s: %s",
		addr_text(&f->why_addr, text), strerror(error));
	f->cause = hub_client_cause(f->error);
	log_limited(
		LOG_LEVEL_WARN, 6, "meta", "why the hub cannot be reached error=\"%s\"", f->error);
}

static void
hub_client_why_on_outcome(void *arg, int fd, unsigned events)
{
	(void)events;
	hub_client_why_tell(arg, sock_error(fd));
}

void
hub_client_why_dial(void *arg)
{
	struct hub_client *f = arg;
	int rc = sock_connect(&f->why_addr, f->mark, &f->why_fd);

	if (rc < 0)
		hub_client_why_tell(f, -rc);
	else
		f->why_watch =
			watch_start(f->loop, f->why_fd, WATCH_WRITE, hub_client_why_on_outcome, f);
}

/* Delayed by a timer: in its callbacks libwebsockets has closed a descriptor that libuv still has
 * registered, and ours would get its number. */
void
hub_client_why_ask(struct hub_client *f, const struct addr *to)
{
	hub_client_why_end(f);
	f->why_addr = *to;
	timer_start(f->why_later, LATER_MS, 0);
}
