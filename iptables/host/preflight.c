#include "iptables/host/preflight.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "base/core/sock.h"
#include "base/core/special_addr.h"
#include "iptables/host/iface.h"

#define FORWARDING "/proc/sys/net/ipv4/ip_forward"
#define FORWARDING6 "/proc/sys/net/ipv6/conf/all/forwarding"
#define OF_INTERFACE "/proc/sys/net/ipv4/conf/%s/forwarding"
enum { NETWORK_TEXT_MAX = IP_TEXT_MAX + 4 };

static const char *
network_text(char to[NETWORK_TEXT_MAX], const struct in6_addr *ip, unsigned bits)
{
	char text[IP_TEXT_MAX];

	snprintf(to, NETWORK_TEXT_MAX, "%s/%u", ip_text(ip, text),
		IN6_IS_ADDR_V4MAPPED(ip) ? bits - 96 : bits);
	return to;
}

/* The first network of this node, but for one interface, that overlaps the range, preferring one
 * whose own address is in the range; false: none. */
static bool
find_overlap(const struct expr_net *range, int but, struct iface_network *found, bool *inside)
{
	auto_buf struct buf list;
	const struct iface_network *n;
	bool any = false;

	buf_init(&list, BUF_UNLIMITED);
	*inside = false;
	if (iface_networks(&list) < 0)
		return false;
	n = (const void *)buf_at(&list);
	for (size_t i = 0; i < buf_len(&list) / sizeof *n && !*inside; i++) {
		if (n[i].index == but)
			continue;
		*inside = special_addr_in_net(&n[i].address, &range->ip, range->bits);
		if (!*inside && (any || !special_addr_in_net(&range->ip, &n[i].address, n[i].bits)))
			continue;
		*found = n[i];
		any = true;
	}
	return any;
}

static const char *
range_key(const struct expr_net *range)
{
	return IN6_IS_ADDR_V4MAPPED(&range->ip) ? "mesh.subnet" : "mesh.subnet6";
}

static void
explain_range(char *to, size_t size, const struct preflight_where *w)
{
	const struct expr_net *const ranges[] = {&w->range, &w->range6};

	*to = '\0';
	for (size_t i = 0; i < ARRAY_LEN(ranges) && *to == '\0'; i++) {
		char range[NETWORK_TEXT_MAX], its[NETWORK_TEXT_MAX];
		struct iface_network n = {0};
		bool inside;

		if (ranges[i]->bits == 0 || !find_overlap(ranges[i], w->own, &n, &inside))
			continue;
		network_text(range, &ranges[i]->ip, ranges[i]->bits);
		network_text(its, &n.address, n.bits);
		snprintf(to, size,
			"%s %s %s of this node, %s, and hides what is there: give it a range that "
			"nobody uses",
			range_key(ranges[i]), range,
			inside ? "holds an address" : "lies within a network", its);
	}
}

static bool
is_off(const char *path)
{
	auto_free char *text = NULL;

	return file_read(path, 16, &text, NULL) == 0 && text[0] == '0';
}

static void
explain_forwarding(char *to, size_t size, const struct preflight_where *w)
{
	auto_free char *own = xasprintf(OF_INTERFACE, w->interface);
	const char *off = !w->carries                       ? NULL
		: is_off(FORWARDING)                        ? FORWARDING
		: is_off(own)                               ? own
		: w->range6.bits > 0 && is_off(FORWARDING6) ? FORWARDING6
							    : NULL;

	*to = '\0';
	if (off != NULL)
		snprintf(to, size,
			"%s is 0: pods do not reach UDP services and what else the kernel carries; "
			"write 1 into it (sysctl)",
			off);
}

int
preflight_refuse(const struct expr_net *range, int own, struct err *err)
{
	char text[NETWORK_TEXT_MAX], its[NETWORK_TEXT_MAX];
	struct iface_network n = {0};
	bool inside;

	if (!find_overlap(range, own, &n, &inside) || !inside)
		return 0;
	return err_set(err, EADDRINUSE,
		"%s %s holds %s, an address of this node, whose network could not be reached any "
		"more: give it a range that nobody uses",
		range_key(range), network_text(text, &range->ip, range->bits),
		network_text(its, &n.address, n.bits));
}

typedef void explain_fn(char *to, size_t size, const struct preflight_where *where);

void
preflight_look(struct preflight *o, const struct preflight_where *where)
{
	static explain_fn *const explains[OBSTACLE_KINDS] = {explain_range, explain_forwarding};

	for (size_t i = 0; i < OBSTACLE_KINDS; i++) {
		char now[sizeof o->text[i]];

		explains[i](now, sizeof now, where);
		if (strcmp(now, o->text[i]) == 0)
			continue;
		if (now[0] != '\0')
			log_warn("iptables", "%s", now);
		else
			log_info("iptables", "no longer in the way was=\"%s\"", o->text[i]);
		strcpy(o->text[i], now);
	}
}

void
preflight_metrics(const struct preflight *o, struct metrics *m)
{
	static const char *const labels[OBSTACLE_KINDS] = {"kind=\"range\"", "kind=\"forwarding\""};

	for (size_t i = 0; i < OBSTACLE_KINDS; i++)
		metric_gauge(m, "edgeway_iptables_obstacles",
			"1 while the node's own settings spoil the mesh, see edgewayctl status.",
			labels[i], o->text[i][0] != '\0' ? 1 : 0);
}

/* The texts need no JSON escapes: rules_check restricts interface names. */
void
preflight_state(const struct preflight *o, struct buf *out)
{
	const char *comma = "";

	buf_adds(out, "[");
	for (size_t i = 0; i < OBSTACLE_KINDS; i++) {
		if (o->text[i][0] == '\0')
			continue;
		buf_printf(out, "%s\"%s\"", comma, o->text[i]);
		comma = ",";
	}
	buf_adds(out, "]");
}
