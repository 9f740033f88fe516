#include "iptables/host/preflight.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "iptables/host/iface.h"

#define FORWARDING "/proc/sys/net/ipv4/ip_forward"
#define OF_INTERFACE "/proc/sys/net/ipv4/conf/%s/forwarding"
enum { NETWORK_TEXT_MAX = INET_ADDRSTRLEN + 4 };

static const char *
network_text(char to[NETWORK_TEXT_MAX], uint32_t address, int prefix)
{
	struct in_addr in = {.s_addr = htonl(address)};
	char text[INET_ADDRSTRLEN];

	snprintf(to, NETWORK_TEXT_MAX, "%s/%d", inet_ntop(AF_INET, &in, text, sizeof text), prefix);
	return to;
}

/* The first network of this node that overlaps the range, preferring one whose own address is in
 * the range; false: none. */
static bool
find_overlap(uint32_t subnet, uint32_t mask, struct iface_network *found, bool *inside)
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
		*inside = (n[i].address & mask) == subnet;
		if (!*inside && (any || ((n[i].address ^ subnet) & n[i].mask) != 0))
			continue;
		*found = n[i];
		any = true;
	}
	return any;
}

static void
explain_range(char *to, size_t size, const struct preflight_where *w)
{
	char range[NETWORK_TEXT_MAX], its[NETWORK_TEXT_MAX];
	struct iface_network n = {0};
	bool inside;

	*to = '\0';
	if (!find_overlap(w->subnet, w->mask, &n, &inside))
		return;
	network_text(range, w->subnet, __builtin_popcount(w->mask));
	network_text(its, n.address, __builtin_popcount(n.mask));
	snprintf(to, size,
		"mesh.subnet %s %s of this node, %s, and hides what is there: give mesh.subnet a "
		"range that nobody uses",
		range, inside ? "holds an address" : "lies within a network", its);
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
	const char *off = !w->carries ? NULL
		: is_off(FORWARDING)  ? FORWARDING
		: is_off(own)         ? own
				      : NULL;

	*to = '\0';
	if (off != NULL)
		snprintf(to, size,
			"%s is 0: pods do not reach UDP services and what else the kernel carries; "
			"write 1 into it (sysctl)",
			off);
}

int
preflight_refuse(uint32_t subnet, uint32_t mask, struct err *err)
{
	char range[NETWORK_TEXT_MAX], its[NETWORK_TEXT_MAX];
	struct iface_network n = {0};
	bool inside;

	if (!find_overlap(subnet, mask, &n, &inside) || !inside)
		return 0;
	return err_set(err, EADDRINUSE,
		"mesh.subnet %s holds %s, an address of this node, whose network could not be "
		"reached any more: "
		"give mesh.subnet a range that nobody uses",
		network_text(range, subnet, __builtin_popcount(mask)),
		network_text(its, n.address, __builtin_popcount(n.mask)));
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
