#include "hub/port/refusals.h"

#include <stdlib.h>
#include <string.h>

#include "base/core/log.h"
#include "model/json.h"

static char *
refusals_reason(const char *json, size_t len)
{
	auto_free char *text = NULL;
	char clean[REFUSALS_REASON_MAX];
	struct json j;

	json_init(&j, json, len);
	json_text(&j, &text, len);
	json_finish(&j, NULL);
	return xstrdup(log_clean(clean, sizeof clean, text != NULL ? text : json));
}

void
refusals_add(struct refusals *r, const char *service, const char *json, size_t len)
{
	if (r->n == REFUSALS_NAMED) {
		r->more++;
		return;
	}
	r->list = xrealloc(r->list, (r->n + 1) * sizeof *r->list);
	r->list[r->n++] = (struct refusal){xstrdup(service), refusals_reason(json, len)};
}

static void
refusals_free(struct refusal *f)
{
	free(f->service);
	free(f->reason);
}

void
refusals_drop(struct refusals *r, const char *service)
{
	size_t i = 0;

	while (i < r->n && strcmp(r->list[i].service, service) != 0)
		i++;
	if (i == r->n) {
		r->more -= r->more > 0;
		return;
	}
	refusals_free(&r->list[i]);
	r->list[i] = r->list[--r->n];
	if (r->n == 0)
		free(take_ptr(&r->list));
}

size_t
refusals_count(const struct refusals *r)
{
	return r->n + r->more;
}

void
refusals_fini(struct refusals *r)
{
	while (r->n > 0)
		refusals_free(&r->list[--r->n]);
	free(take_ptr(&r->list));
	r->more = 0;
}
