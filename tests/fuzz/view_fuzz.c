/* Service views: what parses has a canonical form that parses to itself, and makes a service and a
 * snapshot. */
#include <assert.h>
#include <string.h>

#include "model/json.h"
#include "model/snapshot.h"
#include "model/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void
use(const struct view *v, uint64_t digest)
{
	struct self self = {.node = "edge-1", .site = "a", .zone = "z"};
	struct service *s = service_build(v, &self, 0x09fb0001, digest);
	struct change change = {v->ns, v->name, s};
	struct snapshot *empty = snapshot_new(true), *next = snapshot_next(empty, &change, 1);
	const struct service *found =
		snapshot_find(next, v->ns, strlen(v->ns), v->name, strlen(v->name));

	assert(found == s && snapshot_find_ip(next, 0x09fb0001) == s);
	for (size_t i = 0; i < s->n_ports; i++) {
		const struct service_port *p = &s->ports[i];

		assert(service_port_find(s, p->port, p->mode == PORT_UDP) == p);
		assert(p->n_endpoints + (size_t)p->n_unreachable <= v->ports[i].n_endpoints);
		for (size_t k = 0; k < p->n_endpoints; k++) {
			assert(p->endpoints[k].port != 0 && p->endpoints[k].via != VIA_TUNNEL);
			assert(strlen(p->endpoints[k].node) < 254);
		}
	}
	snapshot_unref(&empty);
	snapshot_unref(&next);
}

/* The content of an envelope is printed by cJSON before the digest is taken of it. */
static void
survives_the_envelope(const char *text, size_t len)
{
	struct json j;
	size_t n;
	char *printed;

	json_init(&j, text, len);
	printed = json_print(&j, &n);
	assert(json_finish(&j, NULL) == 0);
	assert(n == len && memcmp(printed, text, n) == 0);
	free(printed);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct view *v, *back;
	struct err err = {0};
	struct buf first, second;
	uint64_t digest;

	if (view_parse(&v, (const char *)data, len, &err) < 0) {
		assert(v == NULL && err.text[0] != '\0');
		return 0;
	}
	buf_init(&first, BUF_UNLIMITED);
	buf_init(&second, BUF_UNLIMITED);
	digest = view_build(&first, v);
	assert(view_parse(&back, buf_at(&first), buf_len(&first), NULL) == 0);
	assert(view_build(&second, back) == digest);
	assert(buf_len(&first) == buf_len(&second));
	assert(memcmp(buf_at(&first), buf_at(&second), buf_len(&first)) == 0);
	survives_the_envelope(buf_at(&first), buf_len(&first));
	use(v, digest);
	view_free(&v);
	view_free(&back);
	buf_fini(&first);
	buf_fini(&second);
	return 0;
}
