#include <string.h>

#include "base/core/buf.h"
#include "model/cluster/cluster_private.h"

/* Older rules first, then by name; rules of unknown age last. */
static int
compare_age(const struct record *a, const struct record *b)
{
	const char *x = a->object->rule.created, *y = b->object->rule.created;
	int order = (int)(*x == '\0') - (int)(*y == '\0');

	if (order == 0)
		order = strcmp(x, y);
	return order != 0 ? order : strcmp(a->name, b->name);
}

void
cluster_rule_place(struct record **at, struct record *r)
{
	while (*at != NULL && compare_age(*at, r) < 0)
		at = &(*at)->next_alike;
	r->next_alike = *at;
	*at = r;
}

static bool
rule_has_service(const struct cluster *c, const char *ns, const char *name)
{
	return cluster_find(c, KUBE_SERVICE, ns, name) != NULL;
}

/* The rule that counts for a Service: of those whose host names it the oldest; else, since EdgeMesh
 * goes by the rule's name, the one of the Service's own name whose host names no Service. */
static const struct kube_rule *
cluster_rule_of(const struct cluster *c, const struct joint *j)
{
	const struct kube_object *o;

	if (j->rules != NULL)
		return &j->rules->object->rule;
	o = cluster_find(c, KUBE_RULE, j->ns, j->name);
	return o != NULL && *o->rule.service != '\0' && !rule_has_service(c, j->ns, o->rule.service)
		? &o->rule
		: NULL;
}

void
cluster_rule_apply(const struct cluster *c, const struct joint *joint, const struct kube_service *s,
	struct view *v)
{
	const struct kube_rule *rule = cluster_rule_of(c, joint);

	if (rule == NULL)
		return;
	if (v->lb.max_connections == 0)
		v->lb.max_connections = rule->max_connections;
	if (v->lb.connect_ms == 0)
		v->lb.connect_ms = rule->connect_ms;
	if (v->lb.outlier_5xx == 0)
		v->lb.outlier_5xx = rule->outlier_5xx;
	if (v->lb.outlier_ms == 0)
		v->lb.outlier_ms = rule->outlier_ms;
	if (v->lb.policy == LB_DEFAULT)
		v->lb.policy = rule->policy;
	if (v->lb.policy != LB_CONSISTENT_HASH || rule->policy != LB_CONSISTENT_HASH ||
		s->hash_given)
		return;
	v->lb.hash_on = rule->hash_on;
	free(v->hash_key);
	v->hash_key = xstrdup(rule->hash_key);
}

/* --- notes and problems --------------------------------------------------------------------- */

/* Adds that the other rules do not apply; nothing when there are none. */
static void
add_others(const struct joint *j, struct buf *out)
{
	const struct record *second = j->rules != NULL ? j->rules->next_alike : NULL;
	size_t more = 0;

	if (second == NULL)
		return;
	buf_printf(out,
		"several DestinationRules are for it, of which the oldest counts, %s, and not %s",
		j->rules->name, second->name);
	for (const struct record *r = second->next_alike; r != NULL; r = r->next_alike)
		more++;
	if (more > 0)
		buf_printf(out, " and %zu more", more);
}

void
cluster_rule_look(struct cluster *c, struct joint *j, bool there)
{
	auto_buf struct buf text;

	buf_init(&text, BUF_UNLIMITED);
	if (j->rules != NULL && !there && rule_has_service(c, j->ns, j->rules->name))
		buf_printf(&text,
			"DestinationRule %s counts for the Service of its name, since spec.host "
			"names none",
			j->rules->name);
	else if (j->rules != NULL && !there)
		buf_printf(&text, "DestinationRule %s is for a Service that is not there",
			j->rules->name);
	else
		add_others(j, &text);
	if (strcmp(buf_str(&text), j->noted != NULL ? j->noted : "") == 0)
		return;
	free(take_ptr(&j->noted));
	if (buf_len(&text) == 0)
		return;
	j->noted = xstrdup(buf_str(&text));
	cluster_note(c, xasprintf("%s service=%s/%s", j->noted, j->ns, j->name));
}

char *
cluster_next_note(struct cluster *c)
{
	struct note *note = TAILQ_FIRST(&c->notes);
	char *text;

	if (note == NULL)
		return NULL;
	TAILQ_REMOVE(&c->notes, note, entry);
	text = note->text;
	free(note);
	return text;
}

char *
cluster_rule_problem(const struct cluster *c, const char *ns, const char *service)
{
	const struct joint *j = cluster_find_joint(c, ns, service);
	const struct kube_rule *rule = j != NULL ? cluster_rule_of(c, j) : NULL;
	auto_buf struct buf out;

	buf_init(&out, BUF_UNLIMITED);
	if (rule == NULL)
		return xstrdup("");
	if (*rule->partly != '\0')
		buf_printf(&out, "DestinationRule %s counts in part: %s%s",
			j->rules != NULL ? j->rules->name : j->name, rule->partly,
			j->rules != NULL && j->rules->next_alike != NULL ? "; " : "");
	add_others(j, &out);
	return buf_take_str(&out);
}

static void
cluster_rule_tell(const struct cluster *c, const struct record *r, cluster_rule_fn *fn, void *arg)
{
	const struct kube_rule *rule = &r->object->rule;
	struct cluster_rule told = {
		.ns = r->ns,
		.name = r->name,
		.service = rule->service,
		.problem = rule->partly,
	};
	const struct joint *named = cluster_find_joint(c, r->ns, r->name);
	auto_free char *text = NULL;

	if (r->joint != NULL) {
		if (!rule_has_service(c, r->ns, rule->service) && named != NULL &&
			rule_has_service(c, r->ns, r->name) && cluster_rule_of(c, named) == rule) {
			told.service = r->name;
			told.counts = true;
		} else if (!rule_has_service(c, r->ns, rule->service))
			text = xasprintf(
				"Service %s, for which it is, is not there", rule->service);
		else if (r->joint->rules != r)
			text = xasprintf("DestinationRule %s is older and counts for Service %s",
				r->joint->rules->name, rule->service);
		else
			told.counts = true;
	}
	if (text != NULL)
		told.problem = text;
	fn(arg, &told);
}

void
cluster_each_rule(const struct cluster *c, cluster_rule_fn *fn, void *arg)
{
	struct table_node *n = NULL;
	size_t slot = 0;

	while ((n = table_walk(&c->rules, &slot, n)) != NULL)
		cluster_rule_tell(c, link_record(n), fn, arg);
}
