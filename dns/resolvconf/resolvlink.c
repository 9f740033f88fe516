/*
 *	IDLE ──use, look──► SETTING ──┐         What is asked for meanwhile waits until the bus has
 *	  │ └──look──────► LOOKING  ──┤         answered: `again`. A failed attempt is repeated
 *	  └─use(0), other link► UNDOING ─► IDLE     every two seconds.
 */
#include "dns/resolvconf/resolvlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>

#include "base/core/log.h"
#include "base/os/dbus.h"
#include "dns/resolvconf/resolvtext.h"
#include "model/json.h"

#define KEEP_KEY "resolved.link"

enum {
	RETRY_MS = 2000,
	ANSWER_MS = 2000,
	SERVERS_MOST = 64,
	OCTET_BITS = 8,
	NIBBLE_BITS = 4,
	TROUBLE_MAX = 320,
};

enum resolvlink_step { LINK_IDLE, LINK_SETTING, LINK_LOOKING, LINK_UNDOING };

struct resolvlink {
	struct resolvlink_config config;
	char *domain, *servers, *bus_path;
	enum resolvlink_step step;
	struct dbus *bus; /* while the step is not IDLE */
	struct timer *retry;
	uint32_t address; /* what is wanted; 0: nothing */
	uint32_t setting; /* what resolved was last told */
	unsigned link; /* whose settings are ours, or may be; 0: none */
	char name[IF_NAMESIZE];
	bool set; /* resolved has answered so */
	bool again, held;
	bool unnoted; /* it was undone while the keep was closed */
	char trouble[TROUBLE_MAX];
	loop_fn *closed;
	void *closed_arg;
};

static void resolvlink_next(struct resolvlink *l);

/* --- the link ------------------------------------------------------------------------------- */

/* The interface that has the address, and its flags. */
static bool
resolvlink_find(uint32_t address, char name[IF_NAMESIZE], unsigned *flags)
{
	struct ifaddrs *all = NULL;
	bool found = false;

	if (getifaddrs(&all) < 0)
		return false;
	for (const struct ifaddrs *i = all; i != NULL && !found; i = i->ifa_next) {
		struct sockaddr_in in;

		if (i->ifa_addr == NULL || i->ifa_addr->sa_family != AF_INET)
			continue;
		memcpy(&in, i->ifa_addr, sizeof in);
		found = ntohl(in.sin_addr.s_addr) == address;
		if (found) {
			snprintf(name, IF_NAMESIZE, "%s", i->ifa_name);
			*flags = i->ifa_flags;
		}
	}
	freeifaddrs(all);
	return found;
}

static void
resolvlink_note(struct resolvlink *l)
{
	const struct dns_keep *keep = &l->config.keep;
	auto_free char *line = xasprintf("%u %s", l->link, l->name);

	if (l->link == 0 && keep->del != NULL)
		keep->del(keep->arg, KEEP_KEY);
	else if (l->link != 0 && keep->put != NULL &&
		keep->put(keep->arg, KEEP_KEY, line, strlen(line)) < 0)
		log_warn("dns",
			"it is not noted that systemd-resolved has a setting of ours: after kill "
			"-9 with "
			"another dns.host it stays link=%s",
			l->name);
}

/* After a reboot another link may have the number. */
static void
resolvlink_recall(struct resolvlink *l)
{
	const struct dns_keep *keep = &l->config.keep;
	auto_free char *data = NULL;
	char now[IF_NAMESIZE];
	size_t len;

	if (keep->get == NULL || keep->get(keep->arg, KEEP_KEY, &data, &len) != 0)
		return;
	if (sscanf(data, "%u %15s", &l->link, l->name) == 2 && l->link != 0 &&
		if_indextoname(l->link, now) != NULL && strcmp(now, l->name) == 0)
		return;
	l->link = 0;
	resolvlink_note(l);
}

/* --- what is said to resolved --------------------------------------------------------------- */

static void
resolvlink_domain(struct buf *b, const char *domain)
{
	dbus_align(b, 8);
	dbus_put_string(b, domain);
	dbus_put_u32(b, true); /* for routing alone: no search list */
}

/* in-addr.arpa has a zone per octet: a range that ends within one has several. */
static void
resolvlink_reverse(const struct resolvlink *l, struct buf *b)
{
	unsigned bits = (unsigned)__builtin_popcount(l->config.mask);
	unsigned octets = (bits + OCTET_BITS - 1) / OCTET_BITS;

	for (uint32_t i = 0; octets > 0 && i < 1u << (octets * OCTET_BITS - bits); i++) {
		uint32_t net = l->config.subnet + (i << (32 - octets * OCTET_BITS));
		auto_buf struct buf zone;

		buf_init(&zone, BUF_UNLIMITED);
		for (unsigned o = 0; o < octets; o++)
			buf_printf(&zone, "%u.", net >> (32 - (octets - o) * OCTET_BITS) & 0xff);
		buf_adds(&zone, "in-addr.arpa");
		resolvlink_domain(b, buf_str(&zone));
	}
}

/* ip6.arpa has one for every four bits. */
static void
resolvlink_reverse6(const struct resolvlink *l, struct buf *b)
{
	const struct fake6 *range = &l->config.subnet6;
	unsigned nibbles = (range->bits + NIBBLE_BITS - 1) / NIBBLE_BITS;

	for (unsigned i = 0; nibbles > 0 && i < 1u << (nibbles * NIBBLE_BITS - range->bits); i++) {
		auto_buf struct buf zone;

		buf_init(&zone, BUF_UNLIMITED);
		for (unsigned n = nibbles; n-- > 0;) {
			unsigned byte = range->prefix.s6_addr[n / 2];
			unsigned nibble = n % 2 == 0 ? byte >> NIBBLE_BITS : byte & 0xf;

			buf_printf(&zone, "%x.", n == nibbles - 1 ? nibble + i : nibble);
		}
		buf_adds(&zone, "ip6.arpa");
		resolvlink_domain(b, buf_str(&zone));
	}
}

/* A call whose first argument is the link; the others follow in *b. */
static void
resolvlink_call(struct resolvlink *l, const char *method, const char *signature, const char *word)
{
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	dbus_put_u32(&b, l->link);
	if (word != NULL)
		dbus_put_string(&b, word);
	else if (strcmp(signature, "ib") == 0)
		dbus_put_u32(&b, false);
	dbus_call(l->bus, method, signature, &b);
}

static void
resolvlink_call_domains(struct resolvlink *l)
{
	struct dbus_array list;
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	dbus_put_u32(&b, l->link);
	list = dbus_array_begin(&b, 8);
	resolvlink_domain(&b, l->domain);
	resolvlink_reverse(l, &b);
	resolvlink_reverse6(l, &b);
	dbus_array_end(&b, &list);
	dbus_call(l->bus, "SetLinkDomains", "ia(sb)", &b);
}

static void
resolvlink_call_servers(struct resolvlink *l)
{
	struct in_addr in = {.s_addr = htonl(l->address)};
	struct dbus_array list, bytes;
	auto_buf struct buf b;

	buf_init(&b, BUF_UNLIMITED);
	dbus_put_u32(&b, l->link);
	list = dbus_array_begin(&b, 8);
	dbus_put_u32(&b, AF_INET);
	bytes = dbus_array_begin(&b, 1);
	buf_add(&b, &in, sizeof in);
	dbus_array_end(&b, &bytes);
	dbus_put_u16(&b, l->config.port);
	dbus_put_string(&b, ""); /* a name for TLS */
	dbus_array_end(&b, &list);
	dbus_call(l->bus, "SetLinkDNSEx", "ia(iayqs)", &b);
}

/* --- steps ---------------------------------------------------------------------------------- */

static void
resolvlink_fail(struct resolvlink *l, const struct err *err)
{
	if (err->code == ESRCH)
		snprintf(l->trouble, sizeof l->trouble, "systemd-resolved does not run");
	else if (err->code == EREMOTEIO)
		snprintf(l->trouble, sizeof l->trouble, "systemd-resolved refuses it: %.250s",
			err->text);
	else
		snprintf(l->trouble, sizeof l->trouble, "%.300s", err->text);
	l->set = false;
	if (l->address != 0)
		timer_start(l->retry, RETRY_MS, 0);
}

static void
resolvlink_forget(struct resolvlink *l)
{
	l->link = 0;
	l->set = false;
}

static void
on_resolvlink(void *arg, const struct err *err)
{
	struct resolvlink *l = arg;
	enum resolvlink_step was = l->step;
	struct err why = err != NULL ? *err : (struct err){0};

	dbus_close(&l->bus);
	l->step = LINK_IDLE;
	if (was == LINK_UNDOING) {
		resolvlink_forget(l);
		/* resolved that does not answer may still have it: the next start asks again */
		if (why.code == 0 || why.code == EREMOTEIO) {
			l->unnoted = l->held;
			if (!l->held)
				resolvlink_note(l);
		}
	} else if (why.code != 0) {
		resolvlink_fail(l, &why);
	} else if (was == LINK_SETTING) {
		l->set = l->setting == l->address;
		l->trouble[0] = '\0';
		log_info("dns",
			"systemd-resolved asks us for the names of the cluster domain=%s link=%s",
			l->domain, l->name);
	}
	if (l->again || (was == LINK_UNDOING && l->address != 0)) {
		l->again = false;
		resolvlink_next(l);
	}
	if (l->closed != NULL && l->step == LINK_IDLE)
		resolvlink_close(&l, l->closed, l->closed_arg);
}

static bool
resolvlink_begin(struct resolvlink *l, enum resolvlink_step step)
{
	const struct dbus_config config = {.loop = l->config.loop,
		.bus = l->bus_path,
		.destination = "org.freedesktop.resolve1",
		.object = "/org/freedesktop/resolve1",
		.interface = "org.freedesktop.resolve1.Manager",
		.timeout_ms = ANSWER_MS,
		.done = on_resolvlink,
		.arg = l};
	struct err err = {0};

	if (dbus_open(&l->bus, &config, &err) < 0) {
		resolvlink_fail(l, &err);
		return false;
	}
	l->step = step;
	return true;
}

static void
resolvlink_undo(struct resolvlink *l)
{
	if (resolvlink_begin(l, LINK_UNDOING))
		resolvlink_call(l, "RevertLink", "i", NULL);
	else
		resolvlink_forget(l);
}

/* The server comes last: until then nothing is asked through the link. resolved must not want
 * signatures or TLS of it, whatever it wants of others. */
static void
resolvlink_set(struct resolvlink *l)
{
	resolvlink_note(l);
	if (!resolvlink_begin(l, LINK_SETTING))
		return;
	l->setting = l->address;
	resolvlink_call_domains(l);
	resolvlink_call(l, "SetLinkDefaultRoute", "ib", NULL);
	resolvlink_call(l, "SetLinkDNSSEC", "is", "no");
	resolvlink_call(l, "SetLinkDNSOverTLS", "is", "no");
	resolvlink_call_servers(l);
}

static void
resolvlink_next(struct resolvlink *l)
{
	char name[IF_NAMESIZE] = "";
	unsigned flags, link;

	if (l->step != LINK_IDLE || l->held) {
		l->again = true;
		return;
	}
	timer_cancel(l->retry);
	if (l->address == 0) {
		if (l->link != 0)
			resolvlink_undo(l);
		return;
	}
	link = resolvlink_find(l->address, name, &flags) ? if_nametoindex(name) : 0;
	if (l->link != 0 && l->link != link) {
		resolvlink_undo(l);
		return;
	}
	if (link == 0) {
		resolvlink_fail(l,
			&(struct err){.code = ENODEV,
				.text = "no interface has the address of the mesh"});
		return;
	}
	if (!l->set) {
		l->link = link;
		memcpy(l->name, name, sizeof l->name);
		resolvlink_set(l);
	} else if (resolvlink_begin(l, LINK_LOOKING)) {
		resolvlink_call(l, "GetLink", "i", NULL);
	}
}

static void
on_resolvlink_retry(void *arg)
{
	resolvlink_next(arg);
}

/* --- entry points --------------------------------------------------------------------------- */

void
resolvlink_open(struct resolvlink **out, const struct resolvlink_config *config)
{
	struct resolvlink *l = xcalloc(1, sizeof *l);

	l->config = *config;
	l->held = config->held;
	l->domain = xstrdup(config->cluster_domain);
	l->servers = xstrdup(config->servers);
	l->bus_path = config->bus != NULL ? xstrdup(config->bus) : NULL;
	l->retry = timer_new(config->loop, on_resolvlink_retry, l);
	resolvlink_recall(l);
	if (!config->wanted)
		resolvlink_next(l);
	*out = l;
}

void
resolvlink_use(struct resolvlink *l, uint32_t address)
{
	if (!l->config.wanted || (address == l->address && l->set))
		return;
	l->set = false;
	l->address = address;
	resolvlink_next(l);
}

/* Another program has taken our server out of the list of those that resolved knows. */
static bool
resolvlink_is_lost(const struct resolvlink *l)
{
	struct addr known[SERVERS_MOST], own = addr_ipv4(l->address, 53);
	auto_free char *text = NULL;
	size_t len, n;

	/* the list does not have servers with other ports */
	if (l->config.port != 53 || file_read(l->servers, RESOLVTEXT_MAX, &text, &len) < 0)
		return false;
	n = resolvtext_upstreams(text, len, 0, known, 0, SERVERS_MOST);
	for (size_t i = 0; i < n; i++)
		if (known[i].len == own.len && memcmp(&known[i].sa, &own.sa, own.len) == 0)
			return false;
	return n < SERVERS_MOST;
}

void
resolvlink_look(struct resolvlink *l)
{
	if (l->address == 0 || timer_active(l->retry))
		return;
	if (l->set && resolvlink_is_lost(l)) {
		log_limited(LOG_LEVEL_INFO, 6, "dns",
			"systemd-resolved has lost our setting: it is set again link=%s", l->name);
		l->set = false;
	}
	resolvlink_next(l);
}

void
resolvlink_hold(struct resolvlink *l, bool held)
{
	l->held = held;
	if (!held && l->unnoted) {
		l->unnoted = false;
		resolvlink_note(l);
	}
	if (!held && l->again) {
		l->again = false;
		resolvlink_next(l);
	}
}

void
resolvlink_close(struct resolvlink **out, loop_fn *closed, void *arg)
{
	struct resolvlink *l = take_ptr(out);

	if (l != NULL && l->step != LINK_IDLE) {
		l->closed = closed;
		l->closed_arg = arg;
		return;
	}
	if (l != NULL) {
		timer_free(&l->retry);
		free(l->domain);
		free(l->servers);
		free(l->bus_path);
		free(l);
	}
	closed(arg);
}

void
resolvlink_state(const struct resolvlink *l, struct buf *out)
{
	char name[IF_NAMESIZE];
	unsigned flags = 0;
	auto_free char *idle = NULL;

	if (!l->config.wanted) {
		buf_adds(out, "\"way\":\"file\"");
		return;
	}
	if (l->set && resolvlink_find(l->address, name, &flags) && (flags & IFF_RUNNING) == 0)
		idle = xasprintf("%s has no carrier, and systemd-resolved asks nobody through such "
				 "a link",
			name);
	buf_printf(out, "\"way\":\"resolved\",\"link\":\"%s\",\"set\":%s,\"fault\":", l->name,
		l->set ? "true" : "false");
	json_add_text(out, idle != NULL ? idle : l->trouble);
}
