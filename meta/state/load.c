#include "meta/state/load.h"

#include <errno.h>
#include <string.h>

#include "base/core/log.h"

/* A service that cannot be used as stored. */
struct odd {
	char *key;
	char *view; /* NULL: damaged */
	size_t len;
	uint64_t digest;
	uint32_t ip;
};

struct state {
	const struct load *load;
	struct load_result *result;
	struct change *changes;
	size_t n, size;
	struct odd *odd;
	size_t n_odd;
};

int
load_row(const struct store_row *row, struct view **view)
{
	const char *slash = strchr(row->key, '/');
	int rc = -EINVAL;

	*view = NULL;
	if (slash == NULL || view_digest(row->view, row->len) != row->digest)
		return rc;
	rc = view_parse(view, row->view, row->len, NULL);
	if (rc == 0 &&
		(strncmp((*view)->ns, row->key, (size_t)(slash - row->key)) != 0 ||
			(*view)->ns[slash - row->key] != '\0' ||
			strcmp((*view)->name, slash + 1) != 0)) {
		view_free(view);
		rc = -EINVAL;
	}
	return rc;
}

static void
add_service(struct state *st, struct service *s)
{
	if (st->n == st->size) {
		st->size = MAX(st->size * 2, 256u);
		st->changes = xrealloc(st->changes, st->size * sizeof(*st->changes));
	}
	st->changes[st->n++] = (struct change){.ns = s->namespace, .name = s->name, .service = s};
}

static void
add_odd(struct state *st, const struct store_row *row, bool damaged)
{
	struct odd *odd;

	st->odd = xrealloc(st->odd, (st->n_odd + 1) * sizeof(*st->odd));
	odd = &st->odd[st->n_odd++];
	*odd = (struct odd){
		.key = xstrdup(row->key), .digest = row->digest, .ip = row->ip, .len = row->len};
	if (!damaged)
		odd->view = xmemdup(row->view, row->len);
}

static void
on_row(void *arg, const struct store_row *row)
{
	struct state *st = arg;
	struct view *view;

	if (load_row(row, &view) < 0) {
		add_odd(st, row, true);
		return;
	}
	if (row->ip == 0 || ipam_put(st->load->ipam, row->key, row->ip) < 0)
		add_odd(st, row, false);
	else
		add_service(st, service_build(view, st->load->self, row->ip, row->digest));
	view_free(&view);
}

static void
on_rest(void *arg, const char *key, uint32_t ip, uint64_t freed_at_ms)
{
	struct state *st = arg;

	/* an address in use or outside the subnet is useless: its row stays in the table until the
	 * address is given */
	ipam_put_resting(st->load->ipam, key, ip, freed_at_ms, st->load->now_ms);
}

/* A damaged service's name keeps its address until the hub sends it again. */
static void
drop_row(struct state *st, const struct odd *odd, struct store_batch *batch)
{
	struct store_op del = {.kind = STORE_DEL, .key = odd->key};
	struct store_op rest = {.kind = STORE_REST,
		.key = odd->key,
		.ip = odd->ip,
		.freed_at_ms = st->load->now_ms};

	store_batch_add(batch, &del);
	if (odd->ip != 0 && ipam_put(st->load->ipam, odd->key, odd->ip) == 0) {
		ipam_release(st->load->ipam, odd->key, st->load->now_ms);
		store_batch_add(batch, &rest);
	}
	st->result->dropped++;
}

static void
give_address(struct state *st, struct odd *odd, struct store_batch *batch)
{
	struct store_op op = {.kind = STORE_IP, .key = odd->key};
	struct store_row row = {
		.key = odd->key, .view = odd->view, .len = odd->len, .digest = odd->digest};
	uint32_t ip = 0;
	struct view *view;

	if (ipam_take(st->load->ipam, odd->key, st->load->now_ms, &ip) < 0) {
		ip = 0; /* meta/state/apply logs it, and tries again later */
		st->result->exhausted++;
	} else {
		st->result->moved++;
	}
	op.ip = ip;
	if (op.ip != odd->ip)
		store_batch_add(batch, &op);
	if (load_row(&row, &view) == 0)
		add_service(st, service_build(view, st->load->self, ip, odd->digest));
	view_free(&view);
}

static void
put_right(struct state *st)
{
	struct store_batch batch = {0};
	struct err err = {0};

	for (size_t i = 0; i < st->n_odd; i++) {
		if (st->odd[i].view == NULL)
			drop_row(st, &st->odd[i], &batch);
	}
	for (size_t i = 0; i < st->n_odd; i++) {
		if (st->odd[i].view != NULL)
			give_address(st, &st->odd[i], &batch);
	}
	if (batch.n > 0 && store_commit(st->load->store, &batch, &err) < 0)
		log_warn("meta", "cannot write what was put right in the database error=\"%s\"",
			err.text);
	store_batch_fini(&batch);
}

static void
load_finish(struct state *st)
{
	const struct snapshot *empty = snapshot_new(st->result->synced);

	st->result->snapshot = empty;
	if (st->n > 0) {
		st->result->snapshot = snapshot_next(empty, st->changes, st->n);
		snapshot_unref((struct snapshot **)(uintptr_t)&empty);
	}
}

int
load_services(const struct load *load, struct load_result *result, struct err *err)
{
	struct state st = {.load = load, .result = result};
	auto_free char *synced = NULL;
	int rc;

	*result = (struct load_result){0};
	rc = store_load(load->store, on_row, &st, err);
	if (rc == 0)
		rc = store_load_resting(load->store, on_rest, &st, err);
	if (rc == 0) {
		put_right(&st);
		synced = store_note(load->store, STORE_SYNCED);
		result->synced = synced != NULL;
		load_finish(&st);
	} else {
		for (size_t i = 0; i < st.n; i++)
			service_unref(&st.changes[i].service);
	}
	for (size_t i = 0; i < st.n_odd; i++) {
		free(st.odd[i].key);
		free(st.odd[i].view);
	}
	free(st.odd);
	free(st.changes);
	return rc;
}
