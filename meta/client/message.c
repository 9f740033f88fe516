#include "meta/client/message.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/conf/tree.h"
#include "model/bundle.h"
#include "model/check.h"
#include "model/health.h"

enum { HUB_PORT = 10000 };

/* "<ns>/<kind>/<name>" */
static int
read_resource(struct message_service *to, const char *resource, const char *kind, struct err *err)
{
	auto_free char *middle = xasprintf("/%s/", kind);
	const char *at = strstr(resource, middle), *name;
	size_t ns_len, name_len;

	if (at == NULL)
		return err_set(err, EINVAL, "resource is not <namespace>/%s/<name>", kind);
	name = at + strlen(middle);
	ns_len = (size_t)(at - resource);
	name_len = strlen(name);
	if (!check_label(resource, ns_len) || !check_service(name, name_len))
		return err_set(err, EINVAL, "namespace or name of the service is not a DNS label");
	memcpy(to->ns, resource, ns_len);
	to->ns[ns_len] = '\0';
	memcpy(to->name, name, name_len + 1);
	return 0;
}

int
message_service(struct message_service *to, const char *resource, struct err *err)
{
	return read_resource(to, resource, "service", err);
}

int
message_health(struct message_service *to, const char *resource, struct err *err)
{
	return read_resource(to, resource, HEALTH_KIND, err);
}

static bool
copy_text(char *to, size_t size, const struct tree_node *n)
{
	const char *text = tree_text(n, "");
	size_t len = strlen(text);

	if (len >= size)
		return false;
	memcpy(to, text, len + 1);
	return true;
}

/* Leaves out excess addresses and texts that are too long for one. */
static void
take_addresses(struct message_hello *to, const struct tree_node *list)
{
	tree_each(list, n) {
		if (to->n_addresses < MESSAGE_ADDRESSES_MAX &&
			copy_text(to->addresses[to->n_addresses], MESSAGE_ADDRESS_TEXT, n) &&
			to->addresses[to->n_addresses][0] != '\0')
			to->n_addresses++;
	}
}

int
message_hello(struct message_hello *to, const char *json, size_t len, struct err *err)
{
	struct tree *t = NULL;
	const struct tree_node *root;
	bool fits;
	int rc;

	if (len == 0 || json[0] != '{')
		return err_set(err, EINVAL, "hello is not a JSON object");
	if ((rc = tree_parse(&t, "hello", json, len, err)) < 0)
		return rc;
	root = tree_document(t, 0);
	to->protocol = to->n_addresses = 0;
	tree_int(tree_get(root, "protocol"), 0, INT32_MAX, &to->protocol);
	take_addresses(to, tree_get(root, "addresses"));
	fits = copy_text(to->site, sizeof(to->site), tree_get(root, "site")) &&
		copy_text(to->zone, sizeof(to->zone), tree_get(root, "zone")) &&
		copy_text(to->cluster_domain, sizeof(to->cluster_domain),
			tree_get(root, "clusterDomain")) &&
		copy_text(to->hub, sizeof(to->hub), tree_get(root, "hub")) &&
		copy_text(to->ca, sizeof(to->ca), tree_get(root, "ca"));
	to->bundles = strcmp(tree_text(tree_get(root, "bundles"), ""), BUNDLE_KIND) == 0;
	to->pods = tree_bool(tree_get(root, "pods"), false);
	to->rendezvous = tree_bool(tree_get(root, "rendezvous"), false);
	tree_free(&t);
	return fits ? 0 : err_set(err, EINVAL, "a text in hello is too long");
}

char *
message_crl(const char *json, size_t len)
{
	struct tree *t = NULL;
	const char *crl;
	char *copy;

	if (len == 0 || json[0] != '{' ||
		tree_parse(&t, "a list of revoked hubs", json, len, NULL) < 0)
		return NULL;
	crl = tree_text(tree_get(tree_document(t, 0), "crl"), "");
	copy = crl[0] != '\0' ? xstrdup(crl) : NULL;
	tree_free(&t);
	return copy;
}

static bool
is_serial(const char *text)
{
	return text[0] != '\0' && strspn(text, "0123456789abcdef,") == strlen(text);
}

char *
message_revoked(const char *json, size_t len)
{
	const struct tree_node *nodes;
	struct tree *t = NULL;
	auto_buf struct buf text;
	bool said;
	size_t n = 0;

	buf_init(&text, BUF_UNLIMITED);
	if (len == 0 || json[0] != '{' || tree_parse(&t, "the revoked nodes", json, len, NULL) < 0)
		return NULL;
	nodes = tree_get(tree_document(t, 0), "revoked");
	said = nodes != NULL;
	tree_each(nodes, at) {
		const char *name = tree_text(tree_get(at, "node"), "");
		const char *valid = tree_text(tree_get(at, "valid"), "");

		if (n++ < MESSAGE_REVOKED_MAX && check_subdomain(name, strlen(name)) &&
			(valid[0] == '\0' || is_serial(valid)))
			buf_printf(&text, "\n%s %s", name, valid);
	}
	if (tree_bool(tree_get(tree_document(t, 0), "nodeRules"), false))
		buf_adds(&text, "\n* ");
	if (buf_len(&text) > 0)
		buf_adds(&text, "\n");
	tree_free(&t);
	return said ? xstrdup(buf_str(&text)) : NULL;
}

bool
message_says_synced(const char *json, size_t len)
{
	struct tree *t = NULL;
	bool synced;

	if (len == 0 || json[0] != '{' || tree_parse(&t, "response", json, len, NULL) < 0)
		return false;
	synced = tree_bool(tree_get(tree_document(t, 0), "synced"), false);
	tree_free(&t);
	return synced;
}

void
message_build(struct buf *out, const struct message *m, char id[37])
{
	const struct saying say = {
		.source = "edgeway-agent",
		.operation = m->operation,
		.resource = m->resource,
		.parent = m->parent,
		.content = m->content,
		.content_len = m->content != NULL ? strlen(m->content) : 0,
	};
	char own[37];

	envelope_new_id(own);
	envelope_say(out, &say, own);
	if (id != NULL)
		memcpy(id, own, sizeof(own));
}

int
message_url(struct message_url *to, const char *url, struct err *err)
{
	static const char scheme[] = "wss://";
	const char *host = url + sizeof(scheme) - 1, *end, *port;
	bool bracket;
	size_t len;
	char *stop;
	unsigned long number = HUB_PORT;

	if (strncasecmp(url, scheme, sizeof(scheme) - 1) != 0)
		return err_set(err, EINVAL,
			"hub.url %s: must begin with wss:// (nothing unencrypted is accepted)",
			url);
	bracket = *host == '[';
	host += bracket;
	end = host + strcspn(host, bracket ? "]" : ":/?#");
	len = (size_t)(end - host);
	if (len == 0 || len > MESH_NODE_MAX || (bracket && *end != ']'))
		return err_set(err, EINVAL, "hub.url %s: no host, or one that is too long", url);
	memcpy(to->host, host, len);
	to->host[len] = '\0';
	port = end + bracket;
	if (*port == ':') {
		number = isdigit((unsigned char)port[1]) ? strtoul(port + 1, &stop, 10) : 0;
		if (number == 0 || number > 65535 || (*stop != '\0' && *stop != '/'))
			return err_set(err, EINVAL, "hub.url %s: the port must be 1 to 65535", url);
	} else if (*port != '\0' && *port != '/') {
		return err_set(err, EINVAL, "hub.url %s: expected wss://host:port", url);
	}
	to->port = (uint16_t)number;
	return 0;
}

static size_t
length_without_dot(const char *name)
{
	size_t len = strlen(name);

	return len > 0 && name[len - 1] == '.' ? len - 1 : len;
}

bool
message_inside(const char *host, const char *domain)
{
	size_t h = length_without_dot(host), d = length_without_dot(domain);

	if (d == 0 || h < d || strncasecmp(host + h - d, domain, d) != 0)
		return false;
	return h == d || host[h - d - 1] == '.';
}
