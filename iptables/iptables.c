#include "iptables/iptables.h"

#include <errno.h>
#include <linux/netfilter.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "base/core/sock.h"
#include "iptables/host/route.h"
#include "iptables/iptables_private.h"
#include "iptables/maps/rules.h"

/* How often to check for new bridge ports and obstacles; the pause applies after a change. */
enum { TEND_MS = 6000, TEND_PAUSE_MS = 200, OWN_RETRY_MS = 2000, REFUSED6_MS = 60 * 1000 };

static guard_install_fn install_table;

static struct expr_net
range_of(const struct iptables *ipt)
{
	return (struct expr_net){
		ip_of_v4(ipt->subnet), 96u + (unsigned)__builtin_popcount(ipt->mask)};
}

/* --- IPv6 ----------------------------------------------------------------------------------- */

static bool
iptables_serves6(const struct iptables *ipt)
{
	return ipt->subnet6.bits > 0 && ipt->trouble6[0] == '\0';
}

static void
set_trouble6(struct iptables *ipt, const char *text)
{
	snprintf(ipt->trouble6, sizeof ipt->trouble6, "%.255s", text);
}

static void
tell_trouble6(struct iptables *ipt)
{
	if (strcmp(ipt->trouble6, ipt->told6) == 0)
		return;
	if (ipt->trouble6[0] != '\0')
		log_error("iptables", "IPv6 is not served error=\"%s\"", ipt->trouble6);
	else
		log_info("iptables", "IPv6 is served now");
	snprintf(ipt->told6, sizeof ipt->told6, "%s", ipt->trouble6);
	if (ipt->changed6 != NULL)
		ipt->changed6(ipt->arg);
}

/* What a kernel without nf_tables for IPv6, or without nat there, says. */
static bool
lacks_ipv6(int rc)
{
	return rc == -EOPNOTSUPP || rc == -EAFNOSUPPORT || rc == -EPROTONOSUPPORT || rc == -ENOENT;
}

/* Our own interface has the mesh's IPv6 address, whatever its part in IPv4 is, unless that would
 * hide a network of the node. */
static void
tend_own6(struct iptables *ipt)
{
	const struct expr_net range = {ipt->subnet6.prefix, ipt->subnet6.bits};
	const struct in6_addr want = fake6_own(&ipt->subnet6);
	bool served = iptables_serves6(ipt);
	struct err err = {.text = ""};

	if (range.bits == 0)
		return;
	if (!own_interface_has(&want) &&
		(preflight_refuse(&range, (int)if_nametoindex(OWN_INTERFACE), &err) < 0 ||
			own_interface_make(0, &ipt->subnet6, &err) < 0))
		set_trouble6(ipt, err.text);
	else if (mono_ms() >= ipt->refused6_until_ms)
		set_trouble6(ipt, "");
	if (served != iptables_serves6(ipt) && ipt->guard.armed && install_table(ipt, &err) < 0)
		guard_repair_later(&ipt->guard);
	tell_trouble6(ipt);
}

static void
iptables_tend(void *arg)
{
	struct iptables *ipt = arg;
	const struct preflight_where where = {.range = range_of(ipt),
		.range6 = {ipt->subnet6.prefix, ipt->subnet6.bits},
		.own = ipt->ours.state.index,
		.interface = ipt->interface,
		.carries = kernelpath_carries(ipt->kernelpath)};

	if (!ipt->guard.armed)
		return;
	ipt->tended_ms = mono_ms();
	tend_own6(ipt);
	handover_reserve(ipt); /* a program that sets the list anew may have dropped ours */
	preflight_look(&ipt->obstacles, &where);
	iptables_ranges_tend(ipt);
	if (where.carries)
		hairpin_tend(&ipt->hairpin, ipt->interfaces);
}

/* --- ports of ours where UDP is relayed ----------------------------------------------------- */

enum { RELAY_PORTS = 65536 };

static void
relay_ports_note(struct iptables *ipt, uint16_t port)
{
	uint8_t *at = &ipt->relay_ports[port / 8], bit = (uint8_t)(1u << port % 8);

	if (*at & bit)
		return;
	*at |= bit;
	buf_add(&ipt->new_relay_ports, &port, sizeof port);
}

static void
relay_ports_all(struct iptables *ipt)
{
	buf_consume(&ipt->new_relay_ports, buf_len(&ipt->new_relay_ports));
	for (unsigned port = 0; port < RELAY_PORTS; port++) {
		const uint16_t number = (uint16_t)port;

		if (ipt->relay_ports[port / 8] >> port % 8 & 1)
			buf_add(&ipt->new_relay_ports, &number, sizeof number);
	}
}

static void
relay_ports_put(struct iptables *ipt, struct batch *b)
{
	size_t bytes = buf_len(&ipt->new_relay_ports);

	if (bytes > 0)
		rules_ports(b, IPPROTO_UDP, (const void *)buf_at(&ipt->new_relay_ports),
			bytes / sizeof(uint16_t));
	buf_consume(&ipt->new_relay_ports, bytes);
}

/* --- the table ------------------------------------------------------------------------------ */

/* In steps small enough for the socket; between them our own events are read. */
static int
put_kernelpath(struct iptables *ipt)
{
	int rc = 0;

	while (rc == 0) {
		struct transaction c;
		bool more;

		guard_begin(&ipt->guard, &c);
		more = kernelpath_put(ipt->kernelpath, &c.batch, iptables_serves6(ipt));
		if (!more) {
			guard_abandon(&c);
			break;
		}
		relay_ports_put(ipt, &c.batch);
		rc = guard_commit(&ipt->guard, &c);
		guard_read(&ipt->guard);
	}
	if (ipt->guard.damaged)
		guard_repair_later(&ipt->guard);
	ipt->guard.damaged = false;
	kernelpath_settled(ipt->kernelpath);
	if (mono_ms() - ipt->tended_ms >= TEND_PAUSE_MS)
		iptables_tend(ipt);
	else
		timer_start(ipt->tend, TEND_PAUSE_MS, TEND_MS);
	return rc;
}

/* nf_tables knows only globs of the form PREFIX*. Of the others the rules have the interfaces that
 * exist; *names: these. */
static int
match_globs(const struct iptables *ipt, struct buf *names)
{
	int rc = 0;

	for (size_t i = 0; ipt->interfaces[i] != NULL && rc == 0; i++)
		if (strchr(ipt->interfaces[i], '[') != NULL)
			rc = iface_match(ipt->interfaces[i], names);
	return rc;
}

/* For rules_install; the caller frees the list, not the names. */
static const char **
list_interfaces(struct iptables *ipt)
{
	auto_buf struct buf now;
	const char *name, *end, **list;
	size_t n = 0;

	buf_init(&now, BUF_UNLIMITED);
	if (match_globs(ipt, &now) == 0) { /* else those of the last time */
		buf_consume(&ipt->matched, buf_len(&ipt->matched));
		buf_add(&ipt->matched, buf_at(&now), buf_len(&now));
	}
	list = xcalloc(ipt->n_interfaces + buf_len(&ipt->matched) + 1, sizeof *list);
	for (size_t i = 0; i < ipt->n_interfaces; i++)
		if (strchr(ipt->interfaces[i], '[') == NULL)
			list[n++] = ipt->interfaces[i];
	name = buf_at(&ipt->matched);
	end = name + buf_len(&ipt->matched);
	for (; name < end; name += strlen(name) + 1)
		list[n++] = name;
	return list;
}

/* Adds the table of one family. */
static void
put_rules(struct iptables *ipt, struct batch *b, struct rules rules)
{
	rules_install(b, &rules);
	capture_put(&ipt->capture, b, mono_ms());
}

/* Left by an earlier run, or from before IPv6 could not be served any more: it would lead clients
 * to addresses where nobody listens. */
static void
put_removal6(struct iptables *ipt, struct batch *b)
{
	if (!guard_has(&ipt->guard, NFPROTO_IPV6))
		return;
	b->family = NFPROTO_IPV6;
	rules_remove(b);
	b->family = NFPROTO_IPV4;
}

static int
commit_rules(struct iptables *ipt)
{
	auto_free const char **interfaces = list_interfaces(ipt);
	struct rules rules = {.interfaces = interfaces,
		.net = {ipt->subnet6.prefix, FAKE6_BITS},
		.address = fake6_own(&ipt->subnet6),
		.port = ipt->proxy_port,
		.dns_port = ipt->dns_port,
		.mark = ipt->mark,
		.draining = ipt->draining,
		.old_kernel = ipt->old_kernel,
		.no_sockets = ipt->no_sockets};
	struct transaction c;

	guard_begin(&ipt->guard, &c);
	if (iptables_serves6(ipt))
		put_rules(ipt, &c.batch, rules);
	else
		put_removal6(ipt, &c.batch);
	rules.net = range_of(ipt);
	rules.address = ip_of_v4(ipt->address);
	put_rules(ipt, &c.batch, rules);
	(void)iptables_ranges_look(ipt);
	rules_pod_ranges(&c.batch, &ipt->pod_ranges_put);
	relay_ports_all(ipt);
	relay_ports_put(ipt, &c.batch);
	/* As much of the maps as fits one transaction; put_kernelpath adds the rest. */
	kernelpath_all(ipt->kernelpath);
	(void)kernelpath_put(ipt->kernelpath, &c.batch, iptables_serves6(ipt));
	return guard_commit(&ipt->guard, &c);
}

/* With what this kernel can do. */
static int
try_rules(struct iptables *ipt)
{
	int rc = commit_rules(ipt);

	if (rc == -EOPNOTSUPP && !ipt->old_kernel) {
		ipt->old_kernel = true;
		rc = commit_rules(ipt);
	}
	if (rc == -ENOENT && !ipt->no_sockets) {
		ipt->no_sockets = true;
		rc = commit_rules(ipt);
		if (rc == 0)
			log_warn("iptables", IPTABLES_NO_SOCKETS);
	}
	return rc;
}

/* With IPv6 if that is served, and if it can be; IPv4 does not wait for it. */
static int
try_families(struct iptables *ipt)
{
	bool old_kernel = ipt->old_kernel, no_sockets = ipt->no_sockets;
	int rc = try_rules(ipt), rc6 = rc;

	if (!iptables_serves6(ipt))
		return rc;
	ipt->refused6_until_ms = 0;
	if (rc == 0)
		return 0;
	snprintf(ipt->trouble6, sizeof ipt->trouble6,
		lacks_ipv6(rc6) ? "the kernel refuses the nftables table ip6 " RULES_TABLE
				  ": it needs nf_tables with nat for IPv6 (%s)"
				: "cannot install the nftables table ip6 " RULES_TABLE ": %s",
		strerror(-rc6));
	ipt->old_kernel = old_kernel;
	ipt->no_sockets = no_sockets;
	rc = try_rules(ipt);
	if (rc < 0)
		set_trouble6(ipt, ""); /* it was not for IPv6 */
	else if (lacks_ipv6(rc6))
		ipt->refused6_until_ms = mono_ms() + REFUSED6_MS;
	return rc;
}

static int
install_table(void *arg, struct err *err)
{
	struct iptables *ipt = arg;
	int rc = try_families(ipt);

	tell_trouble6(ipt);
	if (rc < 0)
		return guard_explain(err, rc, "install");
	guard_replaced(&ipt->guard);
	rc = put_kernelpath(ipt);
	if (rc < 0)
		return guard_explain(err, rc, "fill");
	return 0;
}

static int
install_route(struct iptables *ipt, struct err *err)
{
	struct route route = {.subnet = ipt->subnet,
		.mask = ipt->mask,
		.source = ipt->address,
		.ifindex = ipt->state.index};

	if (ipt->state.index == 0)
		return err_set(err, ENODEV,
			"cannot set the route to the fake range: there is no interface %s",
			ipt->interface);
	return route_set(&route, err);
}

void
iptables_use_port(struct iptables *ipt, uint16_t port)
{
	ipt->current = ipt->current && port == ipt->proxy_port;
	ipt->proxy_port = port;
}

/* The guard sees to it that the table stays. */
static int
iptables_install_table(struct iptables *ipt, uint32_t address, struct err *err)
{
	int rc;

	ipt->current = false;
	ipt->refused6_until_ms = 0;
	tend_own6(ipt);
	own_interface_tidy(&ipt->subnet6);
	if (address != ipt->address)
		memset(ipt->relay_ports, 0, RELAY_PORTS / 8);
	ipt->address = address;
	ipt->draining = false;
	if (ipt->relay != NULL)
		kernelpath_relays(ipt->kernelpath);
	rc = install_table(ipt, err);
	if (rc < 0)
		return rc;
	ipt->guard.armed = ipt->current = true;
	timer_start(ipt->tend, 0, TEND_MS);
	return 0;
}

int
iptables_install(struct iptables *ipt, uint32_t address, struct err *err)
{
	const struct expr_net range = range_of(ipt);
	int rc = preflight_refuse(&range, 0, err);

	if (rc == 0 && !(ipt->guard.armed && ipt->current && address == ipt->address))
		rc = iptables_install_table(ipt, address, err);
	return rc < 0 ? rc : install_route(ipt, err);
}

static void
end_captured(struct iptables *ipt)
{
	const struct in6_addr addresses[] = {ip_of_v4(ipt->address), fake6_own(&ipt->subnet6)};

	capture_flows(&ipt->capture, ipt->address != 0 ? addresses : NULL, ipt->dns_port);
}

int
iptables_remove(struct iptables *ipt, struct err *err)
{
	struct transaction c;
	int rc;

	guard_disarm(&ipt->guard);
	kernelpath_rest(ipt->kernelpath);
	timer_cancel(ipt->tend);
	hairpin_undo(&ipt->hairpin);
	guard_begin(&ipt->guard, &c);
	rules_remove(&c.batch);
	put_removal6(ipt, &c.batch);
	rc = guard_commit(&ipt->guard, &c);
	if (rc < 0)
		return guard_explain(err, rc, "remove");
	capture_adopt(&ipt->capture, NULL, 0, mono_ms());
	end_captured(ipt);
	rc = route_remove(ipt->subnet, ipt->mask, err);
	if (rc == 0)
		rc = own_interface_remove(err);
	return rc;
}

int
iptables_capture(struct iptables *ipt, const struct in6_addr *upstreams, size_t n, struct err *err)
{
	struct transaction c;
	uint64_t now = mono_ms();
	bool others;
	int rc;

	if (!ipt->guard.armed)
		return err_set(err, ENOTCONN, "nothing is captured: the table is not installed");
	others = capture_adopt(&ipt->capture, upstreams, n, now);
	if (n == 0 && !others)
		return 0;
	guard_begin(&ipt->guard, &c);
	capture_put(&ipt->capture, &c.batch, now);
	if (iptables_serves6(ipt)) {
		c.batch.family = NFPROTO_IPV6;
		capture_put(&ipt->capture, &c.batch, now);
	}
	rc = guard_commit(&ipt->guard, &c);
	if (rc < 0)
		return guard_explain(err, rc, "change");
	if (others)
		end_captured(ipt);
	return 0;
}

const char *
iptables_trouble6(const struct iptables *ipt)
{
	return ipt->trouble6;
}

bool
iptables_serves_external(const struct iptables *ipt)
{
	return kernelpath_serves_external(ipt->kernelpath);
}

bool
iptables_installed(const struct iptables *ipt)
{
	return ipt->guard.armed;
}

static void
on_kernelpath(void *arg)
{
	static struct log_limit limit;
	struct iptables *ipt = arg;
	int rc;

	if (!ipt->guard.armed)
		return;
	rc = put_kernelpath(ipt);
	if (rc == 0)
		return;
	if (log_limit_pass(&limit, 6, "iptables"))
		log_warn("iptables",
			"the kernel refused a change of the maps, making the table anew error=%s",
			strerror(-rc));
	guard_repair_later(&ipt->guard);
}

static bool
iptables_relay(void *arg, const struct service *s, const struct service_port *p, bool v6,
	struct slots_target *to)
{
	struct iptables *ipt = arg;
	uint16_t port = ipt->relay != NULL && !v6 ? ipt->relay(ipt->relay_arg, s, p) : 0;

	*to = (struct slots_target){ip_of_v4(ipt->address), port};
	if (port == 0 || ipt->address == 0)
		return false;
	relay_ports_note(ipt, port);
	return true;
}

void
iptables_addresses(struct iptables *ipt, const struct address_list *own)
{
	kernelpath_addresses(ipt->kernelpath, own);
}

size_t
iptables_troubled(struct iptables *ipt, struct buf *out)
{
	return kernelpath_external_troubled(ipt->kernelpath, out);
}

void
iptables_use(struct iptables *ipt, const struct snapshot *snapshot)
{
	kernelpath_use(ipt->kernelpath, snapshot);
	if (ipt->guard.armed)
		on_kernelpath(ipt);
}

void
iptables_relays(struct iptables *ipt)
{
	kernelpath_relays(ipt->kernelpath);
	on_kernelpath(ipt);
}

int
iptables_drain(struct iptables *ipt, struct err *err)
{
	struct transaction c;
	int rc;

	ipt->draining = true;
	ipt->current = false;
	if (!ipt->guard.armed)
		return 0;
	guard_begin(&ipt->guard, &c);
	rules_drain(&c.batch);
	if (iptables_serves6(ipt)) {
		c.batch.family = NFPROTO_IPV6;
		rules_drain(&c.batch);
	}
	rc = guard_commit(&ipt->guard, &c);
	return rc < 0 ? guard_explain(err, rc, "change") : 0;
}

/* --- the interface -------------------------------------------------------------------------- */

static uint32_t
side_address(const struct iptables_side *side)
{
	return side->state.up ? side->state.address : 0;
}

/* The pods' interface, or where it has no address our own. */
static struct iptables_side *
mesh_side(struct iptables *ipt)
{
	bool ours = ipt->own == IPTABLES_OWN_ALWAYS ||
		(ipt->own != IPTABLES_OWN_NEVER && side_address(&ipt->ours) != 0);

	return side_address(&ipt->pods) == 0 && ours ? &ipt->ours : &ipt->pods;
}

static void
make_own(void *arg)
{
	struct iptables *ipt = arg;
	struct err err;

	ipt->own_refused = own_interface_make(ipt->own_address, &ipt->subnet6, &err) < 0;
	if (!ipt->own_refused) /* reported by `ours` */
		return;
	log_limited(LOG_LEVEL_ERROR, 1, "iptables", "%s", err.text);
	timer_start(ipt->make_own, OWN_RETRY_MS, 0);
}

/* Sees to it that one interface has the mesh's IPv4 address, and one only. */
static void
tend_own(struct iptables *ipt)
{
	struct err err;

	if (ipt->own != IPTABLES_OWN_NEVER && side_address(&ipt->pods) == 0) {
		if (side_address(&ipt->ours) != 0)
			ipt->own_used = true;
		else if (!timer_active(ipt->make_own))
			timer_start(ipt->make_own,
				ipt->own == IPTABLES_OWN_ALWAYS || ipt->own_used ? 0
										 : OWN_INTERFACE_MS,
				0);
		return;
	}
	ipt->own_used = false;
	timer_cancel(ipt->make_own);
	if (ipt->ours.state.index == 0 || (ipt->subnet6.bits > 0 && side_address(&ipt->ours) == 0))
		return;
	if (own_interface_remove(&err) < 0)
		log_warn("iptables", "%s", err.text);
	ipt->ours.state = (struct iface_state){0};
	tend_own6(ipt);
}

/* Interfaces that match a glob have come or gone. */
static void
follow_globs(struct iptables *ipt)
{
	auto_buf struct buf now;
	size_t n;
	struct err err;

	buf_init(&now, BUF_UNLIMITED);
	if (match_globs(ipt, &now) < 0)
		return;
	n = buf_len(&now);
	if (n == buf_len(&ipt->matched) &&
		(n == 0 || memcmp(buf_at(&now), buf_at(&ipt->matched), n) == 0))
		return;
	if (ipt->guard.armed && install_table(ipt, &err) < 0) {
		log_warn("iptables", "%s", err.text);
		guard_repair_later(&ipt->guard);
	}
}

static void
on_iface(void *arg, const struct iface_state *state)
{
	struct iptables_side *side = arg;
	struct iptables *ipt = side->iptables;
	uint32_t address;
	struct err err;

	side->state = *state;
	side->reported = true;
	if ((ipt->pods.iface != NULL && !ipt->pods.reported) ||
		(ipt->ours.iface != NULL && !ipt->ours.reported))
		return;
	tend_own6(ipt);
	side = mesh_side(ipt);
	ipt->state = side->state;
	ipt->interface = side->name;
	address = side_address(side);
	if (!ipt->reported || address != ipt->told) {
		ipt->reported = true;
		ipt->told = address;
		ipt->fn(ipt->arg, address);
	} else if (ipt->guard.armed && address == ipt->address && install_route(ipt, &err) < 0) {
		/* It went down and up within one turn: the kernel removed the route silently. */
		log_warn("iptables", "%s", err.text);
	}
	tend_own(ipt);
	follow_globs(ipt);
}

/* --- open and close ------------------------------------------------------------------------- */

static int
copy_interfaces(struct iptables *ipt, const struct iptables_config *c, struct err *err)
{
	size_t n = 0;

	while (c->interfaces != NULL && c->interfaces[n] != NULL)
		n++;
	ipt->n_interfaces = n + 1;
	ipt->interfaces = xcalloc(n + 2, sizeof *ipt->interfaces);
	ipt->interfaces[0] = ipt->interface = xstrdup(c->interface);
	for (size_t i = 0; i < n; i++)
		ipt->interfaces[i + 1] = xstrdup(c->interfaces[i]);
	for (size_t i = 0; ipt->interfaces[i] != NULL; i++) {
		int rc = rules_check(ipt->interfaces[i], err);

		if (rc < 0)
			return rc;
	}
	if (strpbrk(ipt->interface, "*[") != NULL)
		return err_set(err, EINVAL,
			"mesh.interface must name one interface, not the pattern \"%s\"",
			ipt->interface);
	return 0;
}

static int
open_sockets(struct iptables *ipt, struct err *err)
{
	const struct guard_config config = {
		.loop = ipt->loop, .table = RULES_TABLE, .install = install_table, .arg = ipt};
	int rc = guard_open(&ipt->guard, &config, err);

	ipt->pods = (struct iptables_side){.iptables = ipt, .name = ipt->interface};
	ipt->ours = (struct iptables_side){.iptables = ipt, .name = OWN_INTERFACE};
	if (rc == 0 && ipt->own != IPTABLES_OWN_ALWAYS)
		rc = iface_start(
			&ipt->pods.iface, ipt->loop, ipt->pods.name, on_iface, &ipt->pods, err);
	if (rc == 0 && (ipt->own != IPTABLES_OWN_NEVER || ipt->subnet6.bits > 0))
		rc = iface_start(
			&ipt->ours.iface, ipt->loop, ipt->ours.name, on_iface, &ipt->ours, err);
	if (rc == 0)
		iface_follow(ipt->own == IPTABLES_OWN_ALWAYS ? ipt->ours.iface : ipt->pods.iface,
			ipt->interfaces);
	return rc;
}

/* Has an earlier run left our own interface with an address that it is to have? */
static bool
left_own(const struct iptables *ipt)
{
	const struct in6_addr v4 = ip_of_v4(ipt->own_address), v6 = fake6_own(&ipt->subnet6);

	return (ipt->own != IPTABLES_OWN_NEVER && own_interface_has(&v4)) ||
		(ipt->subnet6.bits > 0 && own_interface_has(&v6));
}

int
iptables_open(struct iptables **out, const struct iptables_config *config, iptables_address_fn *fn,
	void *arg, struct err *err)
{
	struct iptables *ipt = xcalloc(1, sizeof *ipt);
	int rc;

	ipt->loop = config->loop;
	ipt->subnet = config->subnet;
	ipt->mask = config->mask;
	ipt->mark = config->mark;
	ipt->port = ipt->proxy_port = config->port;
	ipt->relay_ports = xcalloc(1, RELAY_PORTS / 8);
	buf_init(&ipt->new_relay_ports, BUF_UNLIMITED);
	buf_init(&ipt->matched, BUF_UNLIMITED);
	ipt->own = config->own;
	ipt->own_address = config->own_address;
	ipt->own_used = config->own_used || config->succeeds;
	ipt->subnet6 = config->subnet6;
	if (!config->succeeds) {
		/* of a run with another configuration */
		if (!left_own(ipt))
			(void)own_interface_remove(NULL);
		own_interface_tidy4(ipt->own_address);
	}
	ipt->dns_port = config->dns_port;
	ipt->fn = fn;
	ipt->arg = arg;
	ipt->relay = config->relay;
	ipt->relay_arg = config->relay_arg;
	ipt->changed6 = config->changed6;
	rc = copy_interfaces(ipt, config, err);
	/* The predecessor's may have another address, which its connections need: both stay. */
	if (rc == 0 && config->succeeds && ipt->own == IPTABLES_OWN_ALWAYS)
		rc = own_interface_make(ipt->own_address, &ipt->subnet6, err);
	if (rc == 0)
		rc = open_sockets(ipt, err);
	if (rc < 0) {
		iptables_close(&ipt);
		return rc;
	}
	ipt->tend = timer_new(ipt->loop, iptables_tend, ipt);
	ipt->make_own = timer_new(ipt->loop, make_own, ipt);
	kernelpath_new(&ipt->kernelpath,
		&(struct kernelpath_config){.iptables = config,
			.relay = iptables_relay,
			.changed = on_kernelpath,
			.arg = ipt});
	handover_reserve(ipt);
	*out = ipt;
	return 0;
}

void
iptables_close(struct iptables **out)
{
	struct iptables *ipt = take_ptr(out);

	if (ipt == NULL)
		return;
	iface_stop(&ipt->pods.iface);
	iface_stop(&ipt->ours.iface);
	timer_free(&ipt->make_own);
	guard_close(&ipt->guard);
	timer_free(&ipt->tend);
	buf_fini(&ipt->hairpin.ports);
	pod_ranges_fini(&ipt->pod_ranges);
	pod_ranges_fini(&ipt->pod_ranges_put);
	buf_fini(&ipt->new_relay_ports);
	buf_fini(&ipt->matched);
	free(ipt->relay_ports);
	kernelpath_free(&ipt->kernelpath);
	handover_give_back(ipt);
	for (size_t i = 0; ipt->interfaces != NULL && ipt->interfaces[i] != NULL; i++)
		free((void *)(uintptr_t)ipt->interfaces[i]);
	free(ipt->interfaces);
	free(ipt);
}
