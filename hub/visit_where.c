#include <string.h>

#include "hub/visit.h"

/* What a visit has been let in to, so that other rules can be asked again. */

void
visit_forget_target(struct visit *v)
{
	free(take_ptr(&v->where_text[0]));
	free(take_ptr(&v->where_text[1]));
	v->let_in = false;
}

bool
visit_let_in(struct visit *v, const struct access_target *where)
{
	visit_forget_target(v);
	if (!access_check(v->ingress->config.access, &v->caller, where))
		return false;
	v->where = *where;
	v->where_text[0] = xstrdup(where->node); /* the same text as ns and host, ways.h */
	v->where_text[1] = xstrdup(where->name);
	v->where.node = v->where.ns = v->where.host = v->where_text[0];
	v->where.name = v->where_text[1];
	v->let_in = true;
	return true;
}

unsigned
ingress_recheck(struct ingress *i)
{
	struct visit *v, *next;
	unsigned cut = 0;

	for (v = TAILQ_FIRST(&i->visits); v != NULL; v = next) {
		next = TAILQ_NEXT(v, entry);
		if (!v->let_in || access_check(i->config.access, &v->caller, &v->where))
			continue;
		cut++;
		visit_forget_target(v);
		visit_break(v, "the rules of access have changed");
	}
	return cut;
}
