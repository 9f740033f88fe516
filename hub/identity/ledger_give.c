/* Records of nodes that join, on their way to the disk. */
#include "hub/identity/ledger_private.h"

#include <errno.h>
#include <string.h>

/* A certificate that was not handed out must not use up the token. */
static void
ledger_withdraw_use(struct ledger *l, const struct joins_entry *use)
{
	if (use->token[0] == '\0' || l->roll != NULL)
		return; /* of a shared registry the Secret has it */
	joins_withdraw(l->registry, use);
	registry_keep(l->registry, REGISTRY_JOINS);
}

static void
ledger_on_written(void *arg)
{
	auto_free struct ledger_write *w = arg;
	auto_free char *node = w->node;
	struct ledger *l = w->ledger;

	if (l == NULL)
		return;
	LIST_REMOVE(w, link);
	if (w->answer.rc < 0)
		ledger_withdraw_use(l, &w->use);
	else if (!revoked_refuses(l->registry, node, w->entry.serial))
		ledger_enter(l, node, &w->entry); /* else it was forgotten meanwhile */
	if (w->written != NULL)
		w->written(w->arg, w->answer.rc);
}

int
ledger_give(struct ledger *l, const struct ledger_gift *gift, struct ledger_write **out,
	struct err *err)
{
	bool taken = ledger_taken(l, gift->node);
	auto_free char *path = ledger_record_path(l, gift->node);
	struct name_archive_entry entry;
	struct ledger_write *w;
	int rc = l->held ? err_set(err, EAGAIN, "another hub takes over: try again")
			 : ledger_entry(l, &entry, gift->cert_pem, err);

	if (rc == 0)
		rc = revoked_sign(l->registry, gift->node, entry.serial, err);
	if (rc < 0)
		return rc;
	*out = w = xcalloc(1, sizeof *w);
	*w = (struct ledger_write){.answer = {.loop = gift->loop, .fn = ledger_on_written},
		.ledger = l,
		.node = xstrdup(gift->node),
		.entry = entry,
		.written = gift->written,
		.arg = gift->arg};
	LIST_INSERT_HEAD(&l->writes, w, link);
	if (gift->use != NULL)
		joins_enter(l->registry, memcpy(&w->use, gift->use, sizeof w->use));
	record_writer_put(l->writer,
		&(struct record_put){.name = gift->node,
			.path = path,
			.text = ledger_record_text(l->cas, gift->cert_pem),
			.line = gift->use != NULL ? joins_line(gift->use) : NULL,
			.answer = &w->answer});
	l->changes += !taken;
	return 0;
}

bool
ledger_gives(const struct ledger *l, const char *node)
{
	const struct ledger_write *w;

	LIST_FOREACH(w, &l->writes, link) {
		if (strcmp(w->node, node) == 0)
			return true;
	}
	return false;
}

void
ledger_let_go(struct ledger_write **out)
{
	struct ledger_write *w = take_ptr(out);

	if (w != NULL)
		w->written = NULL;
}

size_t
ledger_behind(const struct ledger *l)
{
	return record_writer_behind(l->writer);
}

void
ledger_hold(struct ledger *l, bool held)
{
	l->held = held;
	if (held)
		record_writer_wait(l->writer, NULL);
	registry_hold(l->registry, held);
}
