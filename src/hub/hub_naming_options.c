/* Checks of ingress.dns and ingress.hostsConfigMap: a part of hub_options_check. */
#include "src/hub/hub_options.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/core/sock.h"
#include "model/check.h"
#include "src/common/option_checks.h"

enum { ZONE_MAX = 190 }; /* leaves 63 characters for a node */

#define complain(o, key, err, ...) opt_complain(o, key, NULL, err, __VA_ARGS__)

static bool
is_loopback(const char *host)
{
	struct in6_addr a;

	return ip_parse(host, &a) && ip_is_loopback(&a);
}

static bool
is_wildcard(const struct addr *a)
{
	if (a->sa.sa_family == AF_INET)
		return a->in.sin_addr.s_addr == htonl(INADDR_ANY);
	return a->sa.sa_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&a->in6.sin6_addr);
}

/* Notes a listener's address: 0, or -EINVAL if that does not determine which address callers
 * use. */
static int
note_listener(struct hub_options *o, const char *listen)
{
	char host[INET6_ADDRSTRLEN];
	struct addr a;

	if (listen[0] == '\0' || addr_parse(&a, listen, 0, NULL) < 0 || a.sa.sa_family == AF_UNIX)
		return 0;
	if (is_wildcard(&a))
		return -EINVAL;
	if (a.sa.sa_family == AF_INET)
		inet_ntop(AF_INET, &a.in.sin_addr, host, sizeof host);
	else
		inet_ntop(AF_INET6, &a.in6.sin6_addr, host, sizeof host);
	if (o->listened != NULL && is_loopback(host))
		return 0;
	if (o->listened != NULL && !is_loopback(o->listened) && strcmp(o->listened, host) != 0)
		return -EINVAL;
	free(o->listened);
	o->listened = xstrdup(host);
	return 0;
}

/* The single address of all listeners that are not for this machine alone. */
static int
find_listened(struct hub_options *o)
{
	int rc = note_listener(o, o->ingress_http);

	tree_each(o->ingress_tls, entry) {
		if (rc == 0)
			rc = note_listener(o, tree_text(tree_get(entry, "listen"), ""));
	}
	if (rc < 0 || o->listened == NULL)
		return -EINVAL;
	o->node_addresses[0] = o->listened;
	return 0;
}

static int
check_addresses(struct hub_options *o, bool hosts, struct err *err)
{
	size_t n = 0;

	for (char **at = o->ingress_node_addresses; *at != NULL; at++) {
		const char *slash = strchr(*at, '/');
		bool service = slash != NULL && check_label(*at, (size_t)(slash - *at)) &&
			check_label(slash + 1, strlen(slash + 1));

		if (!service && !check_ip(*at, strlen(*at)))
			return complain(o, "ingress.nodeAddresses", err,
				"\"%.80s\": expected an address, or NAMESPACE/NAME of the "
				"ingress's "
				"Service",
				*at);
		if ((service && o->ingress_node_addresses[1] != NULL) ||
			n == HUB_NODE_ADDRESSES_MAX)
			return complain(o, "ingress.nodeAddresses", err,
				"expected one Service, or at most %d addresses",
				HUB_NODE_ADDRESSES_MAX);
		o->node_addresses[n++] = *at;
	}
	/* A zone that is not to be served may be only a suffix. */
	if (n > 0 || find_listened(o) == 0 || (!hosts && !opt_given(o, "ingress.dnsListen")))
		return 0;
	return complain(o, hosts ? "ingress.hostsConfigMap" : "ingress.dnsListen", err,
		"say in ingress.nodeAddresses by which address callers reach the ingress, since "
		"its "
		"listeners leave that open: names of edge nodes mean it");
}

static int
check_hosts(const struct hub_options *o, struct err *err)
{
	static const char letters[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";
	const char *name = o->ingress_hosts_config_map, *key = o->ingress_hosts_key;
	const char *slash = strchr(name, '/');

	if (key[0] == '\0' || strlen(key) > 253 || strspn(key, letters) != strlen(key) ||
		key[0] == '.')
		return complain(o, "ingress.hostsKey", err,
			"\"%.80s\" is not the key of a ConfigMap: letters, digits, -, _ and dots",
			key);
	if (name[0] == '\0')
		return 0;
	if (slash == NULL || !check_label(name, (size_t)(slash - name)) ||
		!check_subdomain(slash + 1, strlen(slash + 1)))
		return complain(o, "ingress.hostsConfigMap", err,
			"\"%.80s\": expected NAMESPACE/NAME, such as kube-system/edgeway-nodes",
			name);
	return 0;
}

int
hub_options_check_naming(struct hub_options *o, struct err *err)
{
	bool zone = o->ingress_dns[0] != '\0' && o->ingress_dns_listen[0] != '\0';
	/* With manifests there is no API to write to; the hub reports that. */
	bool hosts = o->ingress_hosts_config_map[0] != '\0' && o->source_manifests[0] == '\0';
	struct addr a;
	int rc;

	if (o->ingress_dns[0] != '\0' && !option_is_dns_name(o->ingress_dns))
		return complain(o, "ingress.dns", err, "\"%.80s\" is not a domain in lower case",
			o->ingress_dns);
	if (strlen(o->ingress_dns) > ZONE_MAX)
		return complain(o, "ingress.dns", err,
			"leaves no room for the names of nodes: at most %d characters", ZONE_MAX);
	if (o->ingress_dns_listen[0] != '\0' &&
		(addr_parse(&a, o->ingress_dns_listen, 53, NULL) < 0 || a.sa.sa_family == AF_UNIX ||
			addr_port(&a) == 0))
		return complain(o, "ingress.dnsListen", err,
			"expected ADDRESS:PORT, such as 127.0.0.1:10053 or [::]:10053, or \"\"");
	if (o->ingress_dns[0] == '\0' && opt_given(o, "ingress.dnsListen") &&
		o->ingress_dns_listen[0] != '\0')
		return complain(o, "ingress.dnsListen", err,
			"set ingress.dns as well: which zone is served there?");
	if ((rc = check_hosts(o, err)) < 0)
		return rc;
	if (zone || hosts || o->ingress_node_addresses[0] != NULL)
		rc = check_addresses(o, hosts, err);
	return rc;
}
