#include "tests/unit/hub/routing/connector_bed.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

struct bed bed;
static char stands_for_something;

/* --- what hub/routing/connector asks -------------------------------------------------------- */

int
tunnels_open(struct tunnels *t, const char *node, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out)
{
	(void)t;
	(void)node;
	bed.fields[0] = '\0';
	for (size_t i = 0; i < request->n_fields; i++) {
		const struct stream_field *f = &request->fields[i];
		size_t len = strlen(bed.fields);

		if (strcmp(f->name, HOPS_FIELD) == 0)
			snprintf(bed.hops, sizeof bed.hops, "%s", f->value);
		else if (strcmp(f->name, "edgeway-caller") != 0)
			snprintf(bed.fields + len, sizeof bed.fields - len, "%s=%s ", f->name,
				f->value);
	}
	if (!bed.has_tunnel || bed.silent)
		return -ENOTCONN;
	if (bed.refuses != 0)
		return bed.refuses;
	bed.opened++;
	bed.written[0] = '\0';
	bed.events = events;
	bed.to = arg;
	*out = (struct stream *)(void *)&stands_for_something;
	return 0;
}

bool
tunnels_await(const struct tunnels *t, const char *node, bool left)
{
	(void)t;
	(void)node;
	return bed.expected || (left && bed.left);
}

uint64_t
tunnels_epoch(const struct tunnels *t, const char *node)
{
	(void)t;
	(void)node;
	return bed.has_tunnel && !bed.silent ? MAX(bed.epoch, 1u) : 0;
}

bool
tunnels_silent(const struct tunnels *t, const char *node)
{
	(void)t;
	(void)node;
	return bed.silent;
}

/* The stream that is open is the one in the tunnel. */
bool
stream_is_silent(const struct stream *st)
{
	(void)st;
	return bed.silent && bed.asked == 0;
}

bool
stream_is_doubted(const struct stream *st)
{
	(void)st;
	return bed.silent;
}

size_t
stream_room(struct stream *st)
{
	(void)st;
	return sizeof bed.written - 1 - strlen(bed.written);
}

void
stream_write(struct stream *st, const void *data, size_t n)
{
	(void)st;
	strncat(bed.written, data, n);
}

void
stream_close(struct stream **stream, unsigned code)
{
	(void)code;
	bed.closed++;
	*stream = NULL;
}

int
peers_open(struct peers *p, struct peers_ask *ask)
{
	(void)p;
	if (ask->between >= bed.replicas)
		return -ENOTCONN;
	bed.asked++;
	bed.events = ask->events;
	bed.to = ask->to;
	ask->stream = (struct stream *)(void *)&stands_for_something;
	ask->at = "hub-9";
	ask->epoch = 0;
	return 0;
}

void
peers_doubt(struct peers *p, const char *node, uint64_t epoch)
{
	(void)p;
	(void)node;
	(void)epoch;
}

uint64_t
peers_epoch(const struct peers *p, const char *node)
{
	(void)p;
	(void)node;
	return bed.epoch_there;
}

bool
peers_await(const struct peers *p, const char *node)
{
	(void)p;
	(void)node;
	return false;
}

int
local_dial_open(struct local_dial *c, const char *caller, const struct stream_request *request,
	const struct stream_events *events, void *arg, struct stream **out)
{
	(void)c;
	(void)caller;
	(void)request;
	(void)events;
	(void)arg;
	(void)out;
	return -ENOTCONN;
}

/* Knows one stream. */
struct stream_pool *
stream_pool_new(struct loop *loop)
{
	(void)loop;
	return NULL;
}

void
stream_pool_free(struct stream_pool **p)
{
	(void)p;
}

void
stream_pool_clear(struct stream_pool *p)
{
	(void)p;
}

void
stream_pool_metrics(const struct stream_pool *p, struct metrics *m)
{
	(void)p;
	(void)m;
}

bool
stream_pool_any(const struct stream_pool *p)
{
	(void)p;
	return bed.use != NULL;
}

struct stream_use *
stream_use_new(
	struct stream_pool *p, const struct stream_key *key, const char *target, const char *at)
{
	static struct stream_use use;

	(void)p;
	use.target = target;
	use.at = at;
	snprintf(bed.node, sizeof bed.node, "%s", key->node);
	snprintf(bed.authority, sizeof bed.authority, "%s", key->authority);
	snprintf(bed.as_hops, sizeof bed.as_hops, "%s", key->hops);
	bed.as_epoch = key->epoch;
	return &use;
}

void
stream_use_free(struct stream_use **use)
{
	*use = NULL;
}

void
stream_pool_give(struct stream_pool *p, struct stream **stream, struct stream_use **use)
{
	(void)p;
	*stream = NULL;
	bed.use = take_ptr(use);
}

struct stream_use *
stream_pool_take(struct stream_pool *p, const struct stream_key *key, struct stream **out)
{
	(void)p;
	if (strcmp(key->node, bed.node) != 0 || strcmp(key->authority, bed.authority) != 0 ||
		strcmp(key->hops, bed.as_hops) != 0 || key->epoch != bed.as_epoch)
		return NULL;
	*out = (struct stream *)(void *)&stands_for_something;
	return take_ptr(&bed.use);
}

static unsigned
some_ways(struct routes *to)
{
	bed.found++;
	memset(to, 0, sizeof *to);
	if (bed.service != NULL)
		snprintf(to->service, sizeof to->service, "%s", bed.service);
	for (to->n = 0; to->n < MAX(bed.routes, 1u); to->n++) {
		struct way *way = &to->list[to->n];

		snprintf(way->node, sizeof way->node, "edge-%zu", to->n + 1);
		snprintf(way->authority, sizeof way->authority, "edge-%zu:7", to->n + 1);
		if (bed.beside)
			snprintf(way->final_node, sizeof way->final_node, "edge-9");
	}
	return 0;
}

unsigned
routes_find(struct routes_finder *f, const char *host, uint16_t port, struct routes *out)
{
	(void)f;
	(void)host;
	(void)port;
	bed.found_by = "host";
	return some_ways(out);
}

unsigned
routes_find_as(struct routes_finder *f, const struct routes_wish *wish, struct routes *out)
{
	unsigned status = routes_find(f, wish->host, wish->port, out);

	if (wish->udp)
		bed.found_by = "udp";
	return status;
}

unsigned
routes_find_at(struct routes_finder *f, const char *node, const char *dest, struct routes *out)
{
	unsigned status = routes_find(f, node, 0, out);

	assert_non_null(dest);
	bed.found_by = "at";
	return status;
}

unsigned
routes_find_endpoint(
	struct routes_finder *f, const struct routes_endpoint *wanted, struct routes *out)
{
	unsigned status = routes_find(f, wanted->at, 0, out);

	assert_non_null(wanted->service);
	bed.found_by = "endpoint";
	return status;
}

void
routes_caller_of(struct routes_caller *to, const struct caller *caller, bool enforces)
{
	(void)caller;
	*to = (struct routes_caller){.enforces = enforces};
}

void
routes_for(struct routes_finder *f, const struct routes_caller *caller)
{
	(void)f;
	(void)caller;
}

size_t
routes_beside(struct routes_finder *f, struct routes *w, size_t at, const char **why)
{
	(void)f;
	(void)w;
	(void)at;
	*why = NULL;
	return 0;
}

unsigned
routes_admit(const struct routes_finder *f, const struct caller *caller, struct routes *out)
{
	(void)f;
	(void)out;
	return caller->own_dial ? 403 : 0;
}

unsigned
routes_judge(struct routes_finder *f, const struct caller *caller, struct routes *w)
{
	(void)f;
	(void)w;
	return caller->local ? 403 : 0;
}

const char *
caller_text(const struct caller *c, char to[ACCESS_NAME_MAX + 8])
{
	(void)c;
	to[0] = '\0';
	return to;
}

const char *
caller_name(const struct caller *c, char to[ACCESS_NAME_MAX + 8])
{
	return caller_text(c, to);
}

unsigned
grant_open(struct grant *g, const struct caller *caller, const struct acl_target *where,
	const char *via, const char **reason)
{
	(void)g;
	(void)caller;
	(void)where;
	*reason = via;
	return strcmp(via, "full") != 0 ? 200 : 429;
}

void
neighbours_result(
	struct neighbours *n, const char *meant, const struct neighbours_way *way, bool worked)
{
	(void)n;
	(void)meant;
	(void)way;
	(void)worked;
}

void
neighbours_own(struct neighbours *n, const char *node)
{
	(void)n;
	(void)node;
}

bool
neighbours_stand_for(struct neighbours *n, const char *node)
{
	(void)n;
	(void)node;
	return false;
}

/* --- calls ---------------------------------------------------------------------------------- */

struct stream *
bed_stream(void)
{
	return (struct stream *)(void *)&stands_for_something;
}

void
bed_open(const struct bed *start)
{
	bed = *start;
	assert_int_equal(loop_new(&bed.loop, NULL), 0);
	bed.reach = connector_new(&(struct connector_config){
		.loop = bed.loop, .peers = (struct peers *)(void *)&stands_for_something});
}

void
bed_close(void)
{
	connector_free(&bed.reach);
	loop_free(&bed.loop);
}

void
bed_reached(void *arg, struct connector_answer *answer)
{
	(void)arg;
	bed.status = answer->status;
	bed.sent = answer->sent;
	bed.given = answer->stream != NULL;
	bed.use = answer->use;
	snprintf(bed.reason, sizeof bed.reason, "%s", answer->reason);
}

struct connect_op *
bed_call(const struct connector_request *more)
{
	static const struct caller anybody = {0};
	struct connector_request request =
		more != NULL ? *more : (struct connector_request){.caller = &anybody};

	request.host = "edge-1";
	request.port = 7;
	bed.status = 0;
	return connector_start(bed.reach, &request, bed_reached, NULL);
}
