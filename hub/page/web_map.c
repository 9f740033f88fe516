#include "hub/page/web_tell.h"

#include <string.h>

#include "base/core/hash.h"
#include "model/json.h"

enum { SLOTS = 512, NO_SITE = -1 };

struct site {
	uint32_t name; /* survey_text */
	size_t nodes, health[SURVEY_HEALTHS];
	uint64_t in, out;
};

struct sites {
	struct site list[TELL_SITES];
	int n;
	int16_t slots[SLOTS]; /* hash table of index + 1 */
	size_t beyond; /* nodes whose sites do not fit into the list */
};

/* NO_SITE: there are too many sites. */
static int
find_site(struct sites *all, const struct survey *s, uint32_t name)
{
	const char *text = survey_text(s, name);
	size_t slot = hash64(text, strlen(text), 0) % SLOTS;

	for (; all->slots[slot] != 0; slot = (slot + 1) % SLOTS) {
		int at = all->slots[slot] - 1;

		if (strcmp(survey_text(s, all->list[at].name), text) == 0)
			return at;
	}
	if (all->n == TELL_SITES)
		return NO_SITE;
	all->list[all->n].name = name;
	all->slots[slot] = (int16_t)(all->n + 1);
	return all->n++;
}

static void
web_map_count(struct sites *all, const struct survey *s, const struct survey_node *n)
{
	int at = find_site(all, s, n->site);
	struct site *site = &all->list[MAX(at, 0)];

	if (at == NO_SITE) {
		all->beyond++;
		return;
	}
	site->nodes++;
	site->health[n->health]++;
	site->in += n->rate_in;
	site->out += n->rate_out;
}

static void
add_site(const struct survey *s, const struct site *site, struct buf *out)
{
	buf_adds(out, "{\"site\":");
	json_add_text(out, survey_text(s, site->name));
	buf_printf(out, ",\"nodes\":%zu,\"in\":%llu,\"out\":%llu,\"health\":", site->nodes,
		(unsigned long long)site->in, (unsigned long long)site->out);
	tell_healths(site->health, out);
	buf_adds(out, "}");
}

static void
add_drawn(struct sites *all, const struct survey *s, const struct survey_node *n, struct buf *out)
{
	buf_adds(out, "[");
	json_add_text(out, survey_text(s, n->name));
	buf_printf(out, ",%d,\"%s\",%llu]", find_site(all, s, n->site),
		tell_health((enum survey_health)n->health),
		(unsigned long long)(n->rate_in + n->rate_out));
}

/* {"t":"overview","sites":[...],"beyond":n,"drawn":[[name, index of its site or -1, health, bytes a
 * second], ...],"attention":[...]}; drawn is empty if there are too many nodes to draw. */
void
tell_map(const struct tell *t, struct buf *out)
{
	const struct survey_node *list;
	size_t n = survey_nodes(t->survey, &list);
	auto_free struct sites *all = xcalloc(1, sizeof *all);

	for (size_t i = 0; i < n; i++)
		web_map_count(all, t->survey, &list[i]);
	buf_adds(out, "{\"t\":\"overview\",\"sites\":[");
	for (int i = 0; i < all->n; i++) {
		buf_adds(out, i > 0 ? "," : "");
		add_site(t->survey, &all->list[i], out);
	}
	buf_printf(out, "],\"beyond\":%zu,\"drawn\":[", all->beyond);
	for (size_t i = 0; i < n && n <= TELL_DRAWN; i++) {
		buf_adds(out, i > 0 ? "," : "");
		add_drawn(all, t->survey, &list[i], out);
	}
	buf_adds(out, "],");
	tell_attention(t, out);
	buf_adds(out, "}\n");
}
