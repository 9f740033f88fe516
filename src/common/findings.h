/*
 * Findings about a daemon and its machine: one line for each check, with its class
 * (base/core/finding.h) or that all is well. The agent checks itself (agent_findings.c) and puts
 * the list into its state, metrics and log; edgewayctl's status and doctor print that list, and
 * doctor adds what can only be seen from outside (ctl_doctor.c). Of a hub edgewayctl makes the list
 * from the hub's state (ctl_doctor_hub.c, ctl_hub_findings.c). Plain data of the caller, who frees
 * it with findings_fini.
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
	const char *what; /* a stable label */
	const char *check;
	enum verdict verdict;
	char *found;
	const char *remedy; /* NULL when all is well */
	char *own; /* of findings_copy: all members but `found` point into it; else NULL */
};

struct findings {
	struct finding *list;
	size_t n;
};

void findings_fini(struct findings *f);
/* `check` and `remedy` must outlive it; the remedy is dropped if the verdict is good. */
void findings_add(struct findings *f, const char *check, enum verdict verdict, const char *remedy,
	const char *fmt, ...) printf_like(5, 6);
/* Adds a copy that outlives the texts of the original. */
void findings_copy(struct findings *f, const struct finding *one);
/* Sets the label of the finding added last, unless that one is good; the text must outlive it. */
void findings_name(struct findings *f, const char *what);
bool findings_bad(const struct findings *f);
/* How many have this `what`, not counting good ones. */
unsigned findings_count(const struct findings *f, const char *what);
/* "ok", or the word for the class. */
const char *finding_class_word(enum verdict v);
/* As a JSON array: {"what","check","class","found","remedy"}. */
void findings_write(const struct findings *f, struct buf *out);
/* Reads what findings_write wrote; the tree must outlive `f`. */
void findings_read(struct findings *f, const struct tree_node *list);
/* edgeway_problem{what,class} for each problem, edgeway_problems{class} always. */
void findings_metrics(const struct findings *f, struct metrics *m);
/* Logs which problems of `part` began or ended between two checks, except class info. */
void findings_log(const struct findings *before, const struct findings *now, const char *part);

#endif
