/*
 * State shared by the files of hub/identity/ledger: ledger.c, and ledger_give.c, which has what is
 * on its way to the disk. No other file includes it.
 */
#ifndef EDGEWAY_HUB_IDENTITY_LEDGER_PRIVATE_H
#define EDGEWAY_HUB_IDENTITY_LEDGER_PRIVATE_H

#include <sys/queue.h>

#include "hub/identity/ledger.h"
#include "hub/identity/list_file.h"
#include "hub/identity/record_writer.h"

struct names_list {
	char **names;
	size_t n;
};

/* A record on its way to the disk. */
struct ledger_write {
	struct record_answer answer; /* the first member */
	LIST_ENTRY(ledger_write) link;
	struct ledger *ledger; /* NULL: closed */
	char *node;
	struct name_archive_entry entry;
	struct joins_entry use; /* token "": none */
	ledger_written_fn *written; /* NULL: nobody waits */
	void *arg;
};

struct ledger {
	char *dir; /* dataDir */
	struct registry *registry;
	struct record_writer *writer; /* of what ledger_give and ledger_note record */
	LIST_HEAD(ledger_writes, ledger_write) writes;
	bool held; /* ledger_hold */
	char problem[256]; /* ledger_problem's, if it is the writer's */
	struct name_archive *roll; /* NULL: not shared */
	struct name_archive *files; /* the names in the files, if not shared; NULL: not read */
	char cas[CA_LIST_TEXT]; /* in use; before ledger_use_cas those of the last start */
	struct list_file cas_file;
	uint64_t changes; /* counts changes of the files' names */
	/* sorted, as they were read last: the folder of 50 000 nodes is not read each time */
	struct names_list names;
	uint64_t names_changes; /* ledger_changes then */
	bool listed;
};

/* On the heap. */
char *ledger_record_path(const struct ledger *l, const char *node);
char *ledger_record_text(const char *cas, const char *cert_pem);
/* The file has the node's certificate. */
void ledger_enter(struct ledger *l, const char *node, const struct name_archive_entry *entry);

#endif
