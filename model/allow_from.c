#include "model/allow_from.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/os/network.h"
#include "model/check.h"
#include "model/selector.h"

struct allow_names {
	bool given, any;
	size_t n;
	char **list;
};

struct allow_network {
	struct network network;
	bool out;
};

struct allow_peer {
	struct allow_names namespaces, callers;
	bool pods_given, nodes_given, addresses_given;
	struct selector *pods, *nodes; /* NULL: all */
	size_t n_networks;
	struct allow_network *networks;
};

struct allow_from {
	_Atomic unsigned refs;
	size_t n; /* 0: permits nobody */
	struct allow_peer *peers;
};

/* --- reading -------------------------------------------------------------------------------- */

static void
allow_names_fini(struct allow_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->list[i]);
	free(names->list);
}

static void
allow_peer_fini(struct allow_peer *p)
{
	allow_names_fini(&p->namespaces);
	allow_names_fini(&p->callers);
	selector_free(&p->pods);
	selector_free(&p->nodes);
	free(p->networks);
}

/* The text up to a character of `ends`, trimmed, on the heap; *at moves past that character, or to
 * the final NUL. */
static char *
allow_take_part(const char **at, const char *ends)
{
	static const char blanks[] = " \t\r\n";
	const char *from = *at + strspn(*at, blanks);
	size_t len = strcspn(from, ends);

	*at = from + len + (from[len] != '\0');
	while (len > 0 && strchr(blanks, from[len - 1]) != NULL)
		len--;
	return xstrndup(from, len);
}

static int
allow_add_network(struct allow_peer *p, const char *text, struct err *err)
{
	struct allow_network one = {.out = *text == '!'};

	if (!network_parse(&one.network, text + one.out))
		return err_set(err, EINVAL,
			"addresses: '%.60s' is not an address and not a network such as 10.0.0.0/8",
			text);
	p->networks = xrealloc(p->networks, (p->n_networks + 1) * sizeof *p->networks);
	p->networks[p->n_networks++] = one;
	return 0;
}

static bool
allow_is_caller(const char *name)
{
	return strcmp(name, "local") == 0 || (strncmp(name, "cert:", 5) == 0 && name[5] != '\0') ||
		(strncmp(name, "token:", 6) == 0 && name[6] != '\0');
}

static int
allow_add_name(struct allow_peer *p, struct allow_names *to, const char *name, struct err *err)
{
	if (to == &p->namespaces && strcmp(name, "*") == 0) {
		to->any = true;
		return 0;
	}
	if (to == &p->namespaces && !check_label(name, strlen(name)))
		return err_set(
			err, EINVAL, "namespaces: '%.70s' is not the name of a namespace", name);
	if (to == &p->callers && !allow_is_caller(name))
		return err_set(err, EINVAL,
			"callers: '%.70s' is not cert:NAME, token:NAME or local", name);
	to->list = xrealloc(to->list, (to->n + 1) * sizeof *to->list);
	to->list[to->n++] = xstrdup(name);
	return 0;
}

/* to NULL: networks. */
static int
allow_read_list(struct allow_peer *p, struct allow_names *to, const char *text, struct err *err)
{
	size_t n = 0;
	int rc = 0;

	do {
		auto_free char *one = allow_take_part(&text, ",");

		if (n++ == ALLOW_FROM_NAMES_MAX)
			return err_set(
				err, EINVAL, "more than %d in one list", (int)ALLOW_FROM_NAMES_MAX);
		rc = to != NULL ? allow_add_name(p, to, one, err) : allow_add_network(p, one, err);
	} while (rc == 0 && *text != '\0');
	return rc;
}

static int
allow_read_selector(const char *key, struct selector **s, const char *text, struct err *err)
{
	if (strcmp(text, "*") == 0)
		return 0;
	if (*text == '\0')
		return err_set(err, EINVAL, "%s: a selector expected, or * for all", key);
	if (selector_parse(s, text, err) < 0)
		return err_wrap(err, EINVAL, "%s", key);
	return 0;
}

static int
allow_read_condition(struct allow_peer *p, const char *text, struct err *err)
{
	const char *equals = strchr(text, '='), *value;
	auto_free char *key = NULL;
	bool *given = NULL;

	if (equals == NULL)
		return err_set(err, EINVAL,
			"'%.60s' is not namespaces=, pods=, nodes=, addresses= or callers=", text);
	value = equals;
	key = allow_take_part(&text, "=");
	value++;
	value += strspn(value, " \t\r\n");
	if (strcmp(key, "namespaces") == 0)
		given = &p->namespaces.given;
	else if (strcmp(key, "pods") == 0)
		given = &p->pods_given;
	else if (strcmp(key, "nodes") == 0)
		given = &p->nodes_given;
	else if (strcmp(key, "addresses") == 0)
		given = &p->addresses_given;
	else if (strcmp(key, "callers") == 0)
		given = &p->callers.given;
	if (given == NULL)
		return err_set(err, EINVAL,
			"'%.60s' is not namespaces, pods, nodes, addresses or callers", key);
	if (*given)
		return err_set(err, EINVAL, "%s twice in one peer; | begins another one", key);
	*given = true;
	if (given == &p->pods_given)
		return allow_read_selector(key, &p->pods, value, err);
	if (given == &p->nodes_given)
		return allow_read_selector(key, &p->nodes, value, err);
	return allow_read_list(p,
		given == &p->namespaces.given        ? &p->namespaces
			: given == &p->callers.given ? &p->callers
						     : NULL,
		value, err);
}

static int
allow_read_peer(struct allow_from *a, const char *text, const char *ns, struct err *err)
{
	struct allow_peer *p;
	int rc;

	if (a->n == ALLOW_FROM_PEERS_MAX)
		return err_set(err, EINVAL, "more than %d peers", (int)ALLOW_FROM_PEERS_MAX);
	a->peers = xrealloc(a->peers, (a->n + 1) * sizeof *a->peers);
	p = &a->peers[a->n++];
	*p = (struct allow_peer){0};
	do {
		auto_free char *condition = allow_take_part(&text, ";");

		rc = allow_read_condition(p, condition, err);
	} while (rc == 0 && *text != '\0');
	if (rc == 0 && p->pods_given && !p->namespaces.given) {
		p->namespaces.given = true;
		rc = allow_add_name(p, &p->namespaces, ns, err);
	}
	return rc;
}

struct allow_from *
allow_from_nobody(void)
{
	struct allow_from *a = xcalloc(1, sizeof *a);

	atomic_init(&a->refs, 1);
	return a;
}

int
allow_from_parse(struct allow_from **out, const char *text, const char *ns, struct err *err)
{
	struct allow_from *a = allow_from_nobody();
	const char *rest = text;
	auto_free char *all = allow_take_part(&rest, "");
	int rc = 0;

	*out = NULL;
	if (*all == '\0')
		rc = err_set(err, EINVAL, "it is empty; none lets nobody in");
	else if (strcmp(all, ALLOW_FROM_NONE) != 0) {
		rest = all;
		do {
			auto_free char *peer = allow_take_part(&rest, "|");

			rc = allow_read_peer(a, peer, ns, err);
		} while (rc == 0 && *rest != '\0');
	}
	if (rc < 0) {
		allow_from_unref(&a);
		return rc;
	}
	*out = a;
	return 0;
}

struct allow_from *
allow_from_ref(struct allow_from *a)
{
	if (a != NULL)
		atomic_fetch_add_explicit(&a->refs, 1, memory_order_relaxed);
	return a;
}

void
allow_from_unref(struct allow_from **out)
{
	struct allow_from *a = take_ptr(out);

	if (a == NULL || atomic_fetch_sub_explicit(&a->refs, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; i < a->n; i++)
		allow_peer_fini(&a->peers[i]);
	free(a->peers);
	free(a);
}

/* --- matching ------------------------------------------------------------------------------- */

static bool
allow_names_hold(const struct allow_names *names, const char *name)
{
	for (size_t i = 0; name != NULL && i < names->n; i++)
		if (strcmp(names->list[i], name) == 0)
			return true;
	return false;
}

/* True in one of the networks, and in none of the excluded ones. */
static bool
allow_address_matches(const struct allow_peer *p, const struct in6_addr *ip)
{
	bool in = false;

	for (size_t i = 0; i < p->n_networks; i++) {
		if (!network_holds(&p->networks[i].network, ip))
			continue;
		if (p->networks[i].out)
			return false;
		in = true;
	}
	return in;
}

static bool
allow_peer_matches(const struct allow_peer *p, const struct allow_caller *c)
{
	if (p->namespaces.given &&
		(c->ns == NULL || (!p->namespaces.any && !allow_names_hold(&p->namespaces, c->ns))))
		return false;
	if (p->pods_given && (c->ns == NULL || !selector_matches(p->pods, c->labels)))
		return false;
	/* A node with unknown labels matches no selector: else != and notin would hold for it. */
	if (p->nodes_given &&
		(!c->on_node ||
			(p->nodes != NULL &&
				(c->node == NULL || !selector_matches(p->nodes, c->node)))))
		return false;
	if (p->addresses_given && !c->address_checked &&
		(c->address == NULL || !allow_address_matches(p, c->address)))
		return false;
	return !p->callers.given || allow_names_hold(&p->callers, c->name);
}

bool
allow_from_permits(const struct allow_from *a, const struct allow_caller *caller)
{
	for (size_t i = 0; i < a->n; i++)
		if (allow_peer_matches(&a->peers[i], caller))
			return true;
	return false;
}
