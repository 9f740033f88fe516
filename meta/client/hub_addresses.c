#include "meta/client/hub_addresses.h"

#include <errno.h>
#include <string.h>

#include "base/core/buf.h"

int
hub_addresses_init(struct hub_addresses *p, const char *const *urls, const char *cluster_domain,
	struct err *err)
{
	size_t n = 0;
	int rc;

	*p = (struct hub_addresses){.backoff_ms = HUB_ADDRESSES_FIRST_MS};
	while (urls != NULL && urls[n] != NULL)
		n++;
	if (n == 0)
		return err_set(err, EINVAL, "hub.url is empty");
	p->place = xcalloc(n, sizeof(*p->place));
	p->n = n;
	for (size_t i = 0; i < n; i++) {
		struct place *to = &p->place[i];

		to->url = xstrdup(urls[i]);
		if ((rc = message_url(&to->at, to->url, err)) < 0)
			return rc;
		if (message_inside(to->at.host, cluster_domain))
			return err_set(err, EINVAL,
				"hub.url %s: the name lies inside the cluster domain %s, which "
				"only the mesh could answer: give a name of the network's own DNS "
				"or an address",
				to->url, cluster_domain);
	}
	return 0;
}

static void
forget_told(struct place *p)
{
	for (size_t i = 0; i < p->n_told; i++)
		free(p->told[i]);
	p->n_told = 0;
}

void
hub_addresses_fini(struct hub_addresses *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->place[i].url);
		free(p->place[i].last_good);
		forget_told(&p->place[i]);
	}
	free(p->place);
	*p = (struct hub_addresses){0};
}

struct place *
hub_addresses_now(const struct hub_addresses *p)
{
	return &p->place[p->now];
}

static void
add_told(struct place *p, const char *address)
{
	for (size_t i = 0; i < p->n_told; i++) {
		if (strcmp(p->told[i], address) == 0)
			return;
	}
	if (p->n_told < MESSAGE_ADDRESSES_MAX)
		p->told[p->n_told++] = xstrdup(address);
}

void
hub_addresses_recall(struct hub_addresses *p, size_t i, const char *last_good, const char *told)
{
	struct place *to = &p->place[i];
	auto_free char *text = xstrdup(told != NULL ? told : "");
	char *save = NULL;

	free(to->last_good);
	to->last_good = last_good != NULL ? xstrdup(last_good) : NULL;
	forget_told(to);
	for (char *at = strtok_r(text, " ", &save); at != NULL; at = strtok_r(NULL, " ", &save))
		add_told(to, at);
}

bool
hub_addresses_same(const struct addr *a, const struct addr *b)
{
	if (a->sa.sa_family != b->sa.sa_family || addr_port(a) != addr_port(b))
		return false;
	if (a->sa.sa_family == AF_INET6)
		return memcmp(&a->in6.sin6_addr, &b->in6.sin6_addr, sizeof(a->in6.sin6_addr)) == 0;
	return a->in.sin_addr.s_addr == b->in.sin_addr.s_addr;
}

static void
add_addr(struct hub_addresses *p, const struct addr *a)
{
	if (a->sa.sa_family == AF_UNIX || p->n_addrs == PLACE_ADDRS_MAX)
		return;
	for (size_t i = 0; i < p->n_addrs; i++) {
		if (hub_addresses_same(&p->addrs[i], a))
			return;
	}
	p->addrs[p->n_addrs++] = *a;
}

static void
add_text(struct hub_addresses *p, const char *text)
{
	struct addr a;

	if (text != NULL && addr_parse(&a, text, hub_addresses_now(p)->at.port, NULL) == 0)
		add_addr(p, &a);
}

/* A name often has addresses of both families, of which one leads nowhere. Within a family the
 * order stays, which spreads nodes over replicas. */
size_t
hub_addresses_found(struct hub_addresses *p, const struct addr *found, size_t n)
{
	const struct place *now = hub_addresses_now(p);
	struct addr good;
	bool known = now->last_good != NULL && addr_parse(&good, now->last_good, 0, NULL) == 0;

	p->n_addrs = p->at = 0;
	n = MIN(n, (size_t)PLACE_FOUND_MAX);
	for (size_t i = 0; i < n; i++)
		if (known && found[i].sa.sa_family == good.sa.sa_family)
			add_addr(p, &found[i]);
	for (size_t i = 0; i < n; i++)
		add_addr(p, &found[i]);
	add_text(p, now->last_good);
	for (size_t i = 0; i < now->n_told; i++)
		add_text(p, now->told[i]);
	for (size_t i = 0; p->avoids && i + 1 < p->n_addrs; i++)
		if (hub_addresses_same(&p->addrs[i], &p->avoided)) {
			memmove(&p->addrs[i], &p->addrs[i + 1],
				(p->n_addrs - i - 1) * sizeof *p->addrs);
			p->addrs[p->n_addrs - 1] = p->avoided;
			break;
		}
	return p->n_addrs;
}

void
hub_addresses_avoid(struct hub_addresses *p, const struct addr *a)
{
	p->avoids = a != NULL;
	if (a != NULL)
		p->avoided = *a;
}

bool
hub_addresses_left(const struct hub_addresses *p)
{
	return p->at < p->n_addrs;
}

bool
hub_addresses_elsewhere(const struct hub_addresses *p, const struct addr *at)
{
	/* as the next attempt begins if the name resolves to the same addresses */
	struct hub_addresses next = *p;

	hub_addresses_found(&next, p->addrs, p->n_addrs);
	for (size_t i = 0; i < next.n_addrs; i++)
		if (!hub_addresses_same(&next.addrs[i], at))
			return true;
	return p->n > 1;
}

bool
hub_addresses_next(struct hub_addresses *p, struct addr *to)
{
	if (!hub_addresses_left(p))
		return false;
	*to = p->addrs[p->at++];
	return true;
}

bool
hub_addresses_good(struct hub_addresses *p, const char *address)
{
	struct place *now = hub_addresses_now(p);

	if (now->last_good != NULL && strcmp(now->last_good, address) == 0)
		return false;
	free(now->last_good);
	now->last_good = xstrdup(address);
	return true;
}

char *
hub_addresses_told_text(const struct place *p)
{
	struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	for (size_t i = 0; i < p->n_told; i++)
		buf_printf(&text, "%s%s", i > 0 ? " " : "", p->told[i]);
	return buf_take_str(&text);
}

bool
hub_addresses_told(struct hub_addresses *p, char (*addresses)[MESSAGE_ADDRESS_TEXT], size_t n)
{
	struct place *now = hub_addresses_now(p);
	auto_free char *before = hub_addresses_told_text(now), *after = NULL;
	struct addr a;

	if (n == 0)
		return false;
	forget_told(now);
	for (size_t i = 0; i < n; i++) {
		if (addr_parse(&a, addresses[i], now->at.port, NULL) == 0 &&
			a.sa.sa_family != AF_UNIX)
			add_told(now, addresses[i]);
	}
	after = hub_addresses_told_text(now);
	return strcmp(before, after) != 0;
}

uint64_t
hub_addresses_failed(struct hub_addresses *p, uint64_t random)
{
	uint64_t wait = random % (p->backoff_ms + 1);

	p->n_addrs = p->at = 0;
	p->backoff_ms = MIN(p->backoff_ms * 2, (uint64_t)HUB_ADDRESSES_MOST_MS);
	p->now = (p->now + 1) % p->n;
	return wait;
}

void
hub_addresses_reset(struct hub_addresses *p)
{
	p->backoff_ms = HUB_ADDRESSES_FIRST_MS;
}

void
hub_addresses_lived(struct hub_addresses *p, uint64_t ms, bool synced)
{
	if (synced && ms >= HUB_ADDRESSES_GOOD_MS)
		hub_addresses_reset(p);
}
