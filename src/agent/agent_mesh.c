#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/core/inherited.h"
#include "base/core/log.h"
#include "base/core/sock.h"
#include "model/check.h"
#include "src/agent/agent_private.h"

enum { RETRY_MS = 1000, ROOM_MS = 2000, DNS_PORT = 53, UPSTREAMS_MAX = 64 };
#define ADDRESSES_KEY "mesh-addresses"

static const char *
agent_mesh_dotted(uint32_t address, char to[INET_ADDRSTRLEN])
{
	struct in_addr in = {.s_addr = htonl(address)};

	inet_ntop(AF_INET, &in, to, INET_ADDRSTRLEN);
	return to;
}

/* The cluster's DNS server: what pods ask by their kubelet's clusterDNS. NULL: not known, or not
 * to be captured. */
static const struct service *
cluster_dns(const struct agent *a)
{
	static const char ns[] = "kube-system", name[] = "kube-dns";
	const struct service *s = snapshot_find(a->snapshot, ns, strlen(ns), name, strlen(name));

	return a->options->dns_serve_cluster_dns ? s : NULL;
}

/* Only upstreams that a pod can query: port 53, and not this server. An upstream that
 * forwards queries back to us is included: queries of a forwarder in a pod to another upstream are
 * not captured as long as it is an upstream itself, or its loop could never end. Former addresses
 * of ours are captured too: containers keep the resolv.conf with which they were started. */
static size_t
captured_upstreams(const struct agent *a, struct in6_addr list[UPSTREAMS_MAX])
{
	const struct in6_addr own = ip_of_v4(a->address), own6 = fake6_own(&a->options->subnet6);
	const struct addr *upstreams;
	const struct service *dns = cluster_dns(a);
	size_t n = dns_upstreams_known(a->dns, &upstreams), kept = 0;
	/* else nobody would answer in place of an IPv6 upstream */
	bool six = a->options->subnet6.bits > 0 && agent_mesh_error6(a)[0] == '\0';

	for (size_t i = 0; i < n && kept < UPSTREAMS_MAX; i++) {
		const struct addr *u = &upstreams[i];
		struct in6_addr ip;

		if (addr_port(u) == DNS_PORT && addr_ip(u, &ip) && !ip_is_loopback(&ip) &&
			!ip_same(&ip, &own) && !ip_same(&ip, &own6) &&
			(six || IN6_IS_ADDR_V4MAPPED(&ip)))
			list[kept++] = ip;
	}
	for (size_t i = 0; i < AGENT_ADDRESSES_HAD && kept < UPSTREAMS_MAX; i++)
		if (a->addresses_had[i] != 0 && a->addresses_had[i] != a->address)
			list[kept++] = ip_of_v4(a->addresses_had[i]);
	if (dns != NULL && dns->cluster_ip != 0 && kept < UPSTREAMS_MAX)
		list[kept++] = ip_of_v4(dns->cluster_ip);
	if (six && dns != NULL && !IN6_IS_ADDR_UNSPECIFIED(&dns->cluster_ip6) &&
		kept < UPSTREAMS_MAX)
		list[kept++] = dns->cluster_ip6;
	return kept;
}

uint32_t
agent_mesh_recall(struct agent *a)
{
	auto_free char *kept = NULL;
	auto_buf struct buf boot;
	size_t len = 0, size = sizeof a->addresses_had;

	buf_init(&boot, BUF_UNLIMITED);
	agent_add_boot(&boot);
	if (meta_keep_get(a->meta, ADDRESSES_KEY, &kept, &len) != 0 || kept == NULL)
		return a->addresses_had[0];
	memcpy(a->addresses_had, kept, MIN(len, size));
	/* containers get a new resolv.conf when they are started, so after a reboot all; kubelet
	 * may name edgeway0's in each */
	if (len > size &&
		(len - size != buf_len(&boot) || memcmp(kept + size, buf_at(&boot), len - size)))
		for (size_t i = 1; i < AGENT_ADDRESSES_HAD; i++)
			if (a->addresses_had[i] != a->options->own_address)
				a->addresses_had[i] = 0;
	return a->addresses_had[0];
}

/* Puts the address in front of those of earlier times and runs. */
static void
agent_mesh_remember(struct agent *a, uint32_t address)
{
	uint32_t had[AGENT_ADDRESSES_HAD] = {address};
	auto_buf struct buf kept;
	size_t n = 1;

	buf_init(&kept, BUF_UNLIMITED);
	for (size_t i = 0; i < AGENT_ADDRESSES_HAD && n < AGENT_ADDRESSES_HAD; i++)
		if (a->addresses_had[i] != address && a->addresses_had[i] != 0)
			had[n++] = a->addresses_had[i];
	if (memcmp(had, a->addresses_had, sizeof had) == 0)
		return;
	memcpy(a->addresses_had, had, sizeof had);
	buf_add(&kept, had, sizeof had);
	agent_add_boot(&kept);
	if (meta_keep_put(a->meta, ADDRESSES_KEY, buf_at(&kept), buf_len(&kept)) < 0)
		log_warn("agent",
			"the mesh's address is not noted: after a restart, containers that have a "
			"former one as their name server may not be answered");
}

void
agent_capture(void *arg)
{
	static struct log_limit limit;
	struct agent *a = arg;
	struct in6_addr list[UPSTREAMS_MAX];
	struct err err = {0};

	if (a->canary == NULL || a->stopping || !iptables_installed(a->ipt) ||
		!dns_listening(a->dns))
		return;
	if (iptables_capture(a->ipt, list, captured_upstreams(a, list), &err) < 0 &&
		log_limit_pass(&limit, 6, "agent"))
		log_error("agent", "pods' queries to the upstreams are not captured: %s", err.text);
}

void
agent_upstreams(void *arg)
{
	struct agent *a = arg;
	const struct addr *upstreams;
	size_t n = dns_upstreams(a->dns, &upstreams);

	if (a->stopping)
		return;
	meta_use_upstreams(a->meta, upstreams, n);
	tracing_upstreams(a->tracing, upstreams, n);
	if (a->canary != NULL && dns_listening(a->dns))
		dns_selfcheck_ask(a->canary, a->address);
}

void
agent_capture_end(struct agent *a)
{
	struct err err = {0};

	if (a->canary == NULL)
		return;
	dns_selfcheck_ask(a->canary, 0);
	if (iptables_installed(a->ipt) && iptables_capture(a->ipt, NULL, 0, &err) < 0)
		log_error("agent", "pods' queries stay captured for a while: %s", err.text);
}

/* What could not be restored later is not changed, and the mesh serves without it: pods' queries to
 * the upstreams are captured. */
static int
write_resolv_conf(struct agent *a, struct err *err)
{
	int rc = dns_resolvconf_write(a->dns, err);

	if (rc == RESOLVCONF_LEFT && strcmp(a->resolv_left, err->text) != 0)
		log_warn("agent",
			"serves without resolv.conf until there is room: short names of the "
			"cluster are not found through it error=\"%s\"",
			err->text);
	else if (rc == 0 && a->resolv_left[0] != '\0')
		log_info("agent", "resolv.conf is written after all");
	snprintf(a->resolv_left, sizeof a->resolv_left, "%s",
		rc == RESOLVCONF_LEFT ? err->text : "");
	if (rc == RESOLVCONF_LEFT)
		timer_start(a->retry, ROOM_MS, 0);
	return MIN(rc, 0);
}

const char *
agent_mesh_error6(const struct agent *a)
{
	return a->error6[0] != '\0' || a->ipt == NULL ? a->error6 : iptables_trouble6(a->ipt);
}

/* Without it IPv4 is served alone. DNS comes last: while it listens there, it answers AAAA. */
static void
agent_mesh_serve6(struct agent *a)
{
	const struct in6_addr own = fake6_own(&a->options->subnet6);
	bool rules = iptables_trouble6(a->ipt)[0] == '\0';
	struct err err = {0};
	int rc = rules ? lb_listen6(a->lb, &own, &err) : 0;

	if (rc == 0)
		rc = dns_listen6(a->dns, rules ? &own : &in6addr_any, &err);
	if (rc < 0 && strcmp(a->error6, err.text) != 0)
		log_error("agent", "cannot serve IPv6 yet, trying again every two seconds: %s",
			err.text);
	else if (rc == 0 && a->error6[0] != '\0')
		log_info("agent", "serves IPv6 now");
	snprintf(a->error6, sizeof a->error6, "%s", rc < 0 ? err.text : "");
	if (rc < 0)
		timer_start(a->retry, ROOM_MS, 0);
	if (a->takeover == NULL)
		socket_store_put(a->sockets, a->dns, a->lb);
}

/* Is the mesh served, so that what IPv6 or resolv.conf lack can be added? */
static bool
agent_mesh_serves(const struct agent *a)
{
	return !a->stopping && a->address != 0 && a->mesh_error[0] == '\0' && dns_listening(a->dns);
}

void
agent_mesh_trouble6(void *arg)
{
	struct agent *a = arg;

	if (agent_mesh_serves(a))
		agent_mesh_serve6(a);
}

/* Completed steps stay; each may be repeated. Pods are redirected to us in the last step. */
static int
agent_mesh_serve(struct agent *a, struct err *err)
{
	int rc = lb_listen(a->lb, a->address, err);

	agent_tunnel_listen(a, a->address);
	if (rc == 0) {
		iptables_use_port(a->ipt, lb_port(a->lb));
		rc = iptables_install(a->ipt, a->address, err);
	}
	if (rc == 0)
		rc = dns_listen(a->dns, a->address, err);
	if (rc == 0)
		agent_mesh_serve6(a);
	if (rc == 0 && a->canary != NULL)
		dns_selfcheck_ask(a->canary, a->address);
	if (rc == 0)
		pod_canary_use(a->pods, a->address);
	if (rc < 0 || !agent_options_host(a->options))
		return rc;
	rc = write_resolv_conf(a, err);
	if (rc == -EROFS || rc == -EACCES || rc == -EPERM)
		err_wrap(err, rc, "with dns.manageResolvConf: false the agent serves without it");
	return rc;
}

/* Also undoes what a killed predecessor left: nobody may be sent to a name server that does not
 * answer. */
static void
agent_mesh_withdraw(struct agent *a)
{
	struct err err = {0};

	/* it belongs to the predecessor, which continues if we do not come up */
	if (a->takeover != NULL)
		return;
	agent_capture_end(a);
	pod_canary_use(a->pods, 0);
	socket_store_drop(a->sockets);
	if (agent_options_host(a->options) && dns_resolvconf_restore(a->dns, &err) < 0)
		log_error("agent", "cannot restore resolv.conf: %s", err.text);
	dns_listen(a->dns, 0, NULL);
	dns_listen6(a->dns, &in6addr_any, NULL);
	lb_listen(a->lb, 0, NULL);
	lb_listen6(a->lb, &in6addr_any, NULL);
	iptables_remove(a->ipt, NULL);
	agent_tunnel_listen(a, 0);
}

/* Tries again what was left undone while the mesh is served. Returns whether that was all that
 * there was to do. */
static bool
agent_mesh_complete(struct agent *a)
{
	struct err err = {0};

	if (!agent_mesh_serves(a))
		return false;
	if (a->error6[0] != '\0')
		agent_mesh_serve6(a);
	return a->resolv_left[0] == '\0' || write_resolv_conf(a, &err) == 0;
}

/* Everything, also what is done already. */
static void
agent_mesh_try(struct agent *a)
{
	struct err err = {0};
	char text[INET_ADDRSTRLEN];
	int rc;

	if (a->stopping || a->address == 0)
		return;
	rc = agent_mesh_serve(a, &err);
	if (rc < 0) {
		if (strcmp(a->mesh_error, err.text) != 0)
			log_error("agent",
				"cannot serve the mesh yet, trying again every second: %s",
				err.text);
		snprintf(a->mesh_error, sizeof a->mesh_error, "%s", err.text);
		timer_start(a->retry, RETRY_MS, 0);
		agent_tried(a);
		return;
	}
	a->mesh_error[0] = '\0';
	inherited_drop();
	agent_note_estate(a);
	log_info("agent", "serving the mesh address=%s dns=%s:%u listener=%s:%u services=%zu",
		agent_mesh_dotted(a->address, text), text, a->options->dns_port, text,
		lb_port(a->lb), snapshot_count(a->snapshot));
	agent_served(a);
}

void
agent_mesh_retry(void *arg)
{
	if (!agent_mesh_complete(arg))
		agent_mesh_try(arg);
}

void
agent_address(void *arg, uint32_t address)
{
	struct agent *a = arg;
	const char *bridge =
		a->options->own == IPTABLES_OWN_ALWAYS ? OWN_INTERFACE : a->options->bridge;

	if (a->stopping)
		return;
	if (address == 0) {
		log_warn("agent",
			"interface %s is down or has no IPv4 address (yet): waiting for it%s",
			bridge,
			a->options->own == IPTABLES_OWN_NEVER
				? "; is docker running?"
				: ", else the mesh gets an interface of its own");
		if (a->options->mesh_address[0] == '\0') {
			agent_mesh_withdraw(a);
			a->address = 0;
		}
		snprintf(a->mesh_error, sizeof a->mesh_error,
			"waiting for %s to be up with an IPv4 address", bridge);
		if (a->options->mesh_address[0] == '\0') {
			agent_tried(a);
			return;
		}
	}
	if (a->options->mesh_address[0] != '\0')
		address = ntohl(inet_addr(a->options->mesh_address));
	if (a->address != 0 && a->address != address)
		agent_mesh_withdraw(a);
	a->address = address;
	agent_mesh_remember(a, address);
	a->error6[0] = a->resolv_left[0] = '\0';
	timer_cancel(a->retry);
	agent_mesh_try(a);
}
