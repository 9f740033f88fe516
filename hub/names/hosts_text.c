#include "hub/names/hosts_text.h"

#include <string.h>

enum { COMMENT_BYTES = 64 }; /* room for the comment about omitted lines */

void
hosts_lines_add(struct hosts_lines *l, const char *address, const char *name)
{
	if (l->n == l->room) {
		l->room = MAX(l->room * 2, (size_t)64);
		l->line = xrealloc(l->line, l->room * sizeof *l->line);
	}
	l->line[l->n++] = xasprintf("%s\t%s\n", address, name);
}

void
hosts_lines_fini(struct hosts_lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->line[i]);
	free(l->line);
	*l = (struct hosts_lines){0};
}

/* --- lines of others ------------------------------------------------------------------------ */

static int
by_name(const void *a, const void *b)
{
	return strcmp(strchr(*(char *const *)a, '\t'), strchr(*(char *const *)b, '\t'));
}

/* Returns true if the line is an address and the name of one of our nodes, and nothing else. `l` is
 * sorted by name. */
static bool
is_of_node(const struct hosts_lines *l, const char *line, size_t len)
{
	static const char blanks[] = " \t\r";
	auto_free char *text = xstrndup(line, len);
	char *name = text + strspn(text, blanks);
	auto_free char *wanted = NULL;
	size_t n;

	name += strcspn(name, blanks);
	name += strspn(name, blanks);
	n = strcspn(name, blanks);
	if (n == 0 || name[0] == '#' || name[n + strspn(name + n, blanks)] != '\0' || l->n == 0)
		return false;
	wanted = xasprintf("\t%.*s\n", (int)n, name);
	return bsearch(&wanted, l->line, l->n, sizeof *l->line, by_name) != NULL;
}

static const char *
find_mark(const char *old)
{
	const char *at = old;

	while ((at = strstr(at, HOSTS_MARK)) != NULL) {
		if (at == old || at[-1] == '\n')
			return at;
		at++;
	}
	return NULL;
}

/* Returns how many lines were added. */
static size_t
add_others(struct buf *out, struct hosts_lines *l, const char *old, bool ours)
{
	const char *mark = find_mark(old), *end = mark != NULL ? mark : old + strlen(old);
	size_t kept = 0;

	if (ours && mark == NULL)
		return 0;
	if (l->n > 0)
		qsort(l->line, l->n, sizeof *l->line, by_name);
	for (const char *at = old, *next; at < end; at = next) {
		const char *stop = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)((stop != NULL ? stop : end) - at);

		next = stop != NULL ? stop + 1 : end;
		/* Lines above the mark were put there on purpose. */
		if (mark == NULL && (len == 0 || is_of_node(l, at, len)))
			continue;
		buf_add(out, at, len);
		buf_adds(out, "\n");
		kept++;
	}
	return kept;
}

/* --- ours ----------------------------------------------------------------------------------- */

struct hosts_made
hosts_text(struct buf *out, struct hosts_lines *l, const char *old, bool ours, size_t limit)
{
	struct hosts_made made = {0};
	size_t before = buf_len(out), total = 0, left;

	made.kept = add_others(out, l, old, ours);
	if (made.kept > 0)
		buf_adds(out, HOSTS_MARK "\n");
	if (l->n > 0)
		qsort(l->line, l->n, sizeof *l->line, compare_texts);
	for (size_t i = 0; i < l->n; i++)
		total += strlen(l->line[i]);
	left = buf_len(out) - before < limit ? limit - (buf_len(out) - before) : 0;
	if (total > left)
		left = left > COMMENT_BYTES ? left - COMMENT_BYTES : 0;
	for (size_t i = 0; i < l->n && strlen(l->line[i]) <= left; i++) {
		left -= strlen(l->line[i]);
		buf_adds(out, l->line[i]);
		made.names++;
	}
	made.left_out = l->n - made.names;
	if (made.left_out > 0)
		buf_printf(out, "# edgeway-hub: %zu more do not fit\n", made.left_out);
	return made;
}
