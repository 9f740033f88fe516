/*
 * What is found of a daemon and of its machine: one line a check, with its class
 * (base/core/finding.h) or that all is well. The daemon looks at itself (agent_findings.c) and puts
 * the list into its state, its metrics and its log; edgewayctl's status and doctor print that list,
 * and the doctor adds what can be seen from outside alone. Plain data of the caller's, who ends it
 * with findings_fini.
 *
 *	findings_add(&f, "hub", VERDICT_BAD, "is the hub running?", "%s", error);
 *	findings_name(&f, "hub-refused");	// the metric's label; without it, the check's name
 */
#ifndef EDGEWAY_SRC_COMMON_FINDINGS_H
#define EDGEWAY_SRC_COMMON_FINDINGS_H

#include "base/core/buf.h"
#include "base/core/finding.h"
#include "base/core/metric.h"

struct tree_node;

enum verdict { VERDICT_OK, VERDICT_INFO, VERDICT_NOTE, VERDICT_BAD };

struct finding {
	const char *what; /* the same for ever: a label */
	const char *check;
	enum verdict verdict;
	char *found;
	const char *remedy; /* NULL when all is well */
	char *own; /* findings_copy's: what all but `found` points into; else NULL */
};

struct findings {
	struct finding *list;
	size_t n;
};

void findings_fini(struct findings *f);
/* `check` and `remedy` must outlive it; the remedy is left out where the verdict is good. */
void findings_add(struct findings *f, const char *check, enum verdict verdict, const char *remedy,
	const char *fmt, ...) printf_like(5, 6);
/* One that outlives the texts of the other. */
void findings_copy(struct findings *f, const struct finding *one);
/* Of the one that was added last, unless all is well there; must outlive it. */
void findings_name(struct findings *f, const char *what);
bool findings_bad(const struct findings *f);
/* How many have this `what`, all's well apart. */
unsigned findings_count(const struct findings *f, const char *what);
/* "ok", else the class's word. */
const char *finding_class_word(enum verdict v);
/* As a JSON array: {"what","check","class","found","remedy"}. */
void findings_write(const struct findings *f, struct buf *out);
/* What findings_write wrote; the tree must outlive `f`. */
void findings_read(struct findings *f, const struct tree_node *list);
/* edgeway_problem{what,class} for each that is not well, edgeway_problems{class} always. */
void findings_metrics(const struct findings *f, struct metrics *m);
/* Log lines of what has begun and ended between two looks at `part`; information is not told. */
void findings_log(const struct findings *before, const struct findings *now, const char *part);

#endif
