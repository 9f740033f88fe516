/*
 * Every query first drains the netlink socket, without waiting for the loop: so an address added
 * just before a connection to it is already known. `changed` is deferred to the next turn by a
 * timer, since a query may find the change.
 */
#include "base/os/addresses.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <unistd.h>

#include "base/core/log.h"
#include "base/core/special_addr.h"
#include "base/os/netwatch.h"

struct addresses {
	struct loop *loop;
	struct address_list *list;
	struct watch *watch;
	struct timer *soon; /* a call found a change: runs `changed` in the next turn */
	struct timer *again; /* NULL: no `changed` callback */
	loop_fn *changed;
	void *arg;
	uint64_t read_ms;
	bool failed; /* the list could not be read: each call retries */
	int fd; /* rtnetlink; -1: none, so each call reads the list */
};

/* --- reading the addresses ------------------------------------------------------------------ */

/* IPv4 as ::ffff:a.b.c.d; `high` fills the first 10 bytes, 0xff for a mask. */
static bool
to_v6(const struct sockaddr *a, uint8_t high, struct in6_addr *to)
{
	if (a == NULL || (a->sa_family != AF_INET && a->sa_family != AF_INET6))
		return false;
	if (a->sa_family == AF_INET6) {
		*to = ((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;
		return true;
	}
	memset(to, high, sizeof *to);
	to->s6_addr[10] = to->s6_addr[11] = 0xff;
	memcpy(&to->s6_addr[12], &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
	return true;
}

static unsigned
count_bits(const struct sockaddr *mask)
{
	struct in6_addr bits;
	unsigned n = 0;

	if (!to_v6(mask, 0xff, &bits))
		return 128;
	while (n < 128 && (bits.s6_addr[n / 8] >> (7 - n % 8) & 1) != 0)
		n++;
	return n;
}

struct found {
	struct own_address *list;
	size_t n, room;
};

static void
add_address(struct found *f, const struct own_address *own)
{
	if (f->n == f->room) {
		f->room = f->room * 2 + 16;
		f->list = xrealloc(f->list, f->room * sizeof *f->list);
	}
	f->list[f->n++] = *own;
}

/* The first and the last address of an IPv4 network (RFC 3021: not of a /31): what is sent to the
 * last one comes to this machine, too, and so it does with the first one before Linux 5.14. */
static void
add_broadcasts(struct found *f, const struct own_address *own)
{
	struct own_address at = *own;
	uint32_t mask, ip;

	if (!IN6_IS_ADDR_V4MAPPED(&own->ip) || own->bits <= 96 || own->bits >= 127)
		return;
	at.broadcast = true;
	at.bits = 128;
	mask = htonl(UINT32_MAX << (128 - own->bits));
	memcpy(&ip, &own->ip.s6_addr[12], sizeof ip);
	for (unsigned i = 0; i < 2; i++) {
		ip = i == 0 ? ip & mask : ip | ~mask;
		memcpy(&at.ip.s6_addr[12], &ip, sizeof ip);
		add_address(f, &at);
	}
}

static struct address_list *
read_list(void)
{
	struct found found = {0};
	struct address_list *l;
	struct ifaddrs *all;
	unsigned n = 0;

	if (getifaddrs(&all) < 0)
		return NULL;
	for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
		struct own_address own = {.flags = at->ifa_flags & (IFF_UP | IFF_LOOPBACK)};

		if (!to_v6(at->ifa_addr, 0, &own.ip))
			continue;
		own.order = n++;
		own.bits = count_bits(at->ifa_netmask);
		strncpy(own.interface, at->ifa_name, sizeof own.interface - 1);
		add_address(&found, &own);
		add_broadcasts(&found, &own);
	}
	freeifaddrs(all);
	l = address_list_new(found.list, found.n);
	free(found.list);
	return l;
}

static bool
same_lists(const struct address_list *a, const struct address_list *b)
{
	return a->n == b->n && memcmp(a->list, b->list, a->n * sizeof a->list[0]) == 0;
}

/* Returns whether the list has changed. */
static bool
addresses_read(struct addresses *a)
{
	struct address_list *now = read_list();
	bool other;

	a->failed = now == NULL;
	if (now == NULL) {
		log_limited(LOG_LEVEL_ERROR, 6, "tunnel",
			"cannot read this machine's addresses; going by those of before: %s",
			strerror(errno));
		return false;
	}
	a->read_ms = loop_now_ms(a->loop);
	other = !same_lists(a->list, now);
	if (other) {
		address_list_unref(&a->list);
		a->list = now;
	} else {
		address_list_unref(&now);
	}
	return other;
}

/* --- updates -------------------------------------------------------------------------------- */

static void
addresses_refresh(struct addresses *a)
{
	bool told = a->fd < 0 || netwatch_drain(a->fd);

	if ((told || a->failed || loop_now_ms(a->loop) - a->read_ms >= ADDRESSES_MS) &&
		addresses_read(a) && a->changed != NULL)
		timer_start(a->soon, 0, 0);
}

static void
on_netlink(void *arg, int fd, unsigned events)
{
	struct addresses *a = arg;

	(void)fd;
	if (events & WATCH_HUP)
		watch_renew(a->watch);
	addresses_refresh(a);
}

static void
on_again(void *arg)
{
	addresses_refresh(arg);
}

static void
on_soon(void *arg)
{
	struct addresses *a = arg;

	a->changed(a->arg);
}

struct addresses *
addresses_new(struct loop *loop, loop_fn *changed, void *arg)
{
	struct addresses *a = xcalloc(1, sizeof *a);
	struct err err = {0};

	a->loop = loop;
	a->changed = changed;
	a->arg = arg;
	a->list = address_list_new(NULL, 0);
	a->soon = timer_new(loop, on_soon, a);
	if (netwatch_open(RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR, &a->fd, &err) == 0)
		a->watch = watch_start(loop, a->fd, WATCH_READ, on_netlink, a);
	else
		log_warn("tunnel", "this machine's addresses are read anew for each connection: %s",
			err.text);
	addresses_read(a);
	if (changed == NULL)
		return a;
	a->again = timer_new(loop, on_again, a);
	timer_start(a->again, ADDRESSES_MS, ADDRESSES_MS);
	return a;
}

void
addresses_free(struct addresses **out)
{
	struct addresses *a = take_ptr(out);

	if (a == NULL)
		return;
	if (a->watch != NULL)
		watch_stop(&a->watch);
	cleanup_fd(&a->fd);
	timer_free(&a->soon);
	timer_free(&a->again);
	address_list_unref(&a->list);
	free(a);
}

const struct address_list *
addresses_list(struct addresses *a)
{
	addresses_refresh(a);
	return a->list;
}

bool
addresses_has(struct addresses *a, const struct in6_addr *ip)
{
	return address_list_has(addresses_list(a), ip);
}

bool
addresses_on_net(struct addresses *a, const struct in6_addr *ip)
{
	return address_list_on_net(addresses_list(a), ip);
}
