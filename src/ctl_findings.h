/*
 * What a doctor finds: one line a check, for people or for programs. Plain data of the caller's, who ends it with
 * findings_fini.
 */
#ifndef EDGEWAY_SRC_CTL_FINDINGS_H
#define EDGEWAY_SRC_CTL_FINDINGS_H

#include "src/ctl_answer.h"

enum verdict { VERDICT_OK, VERDICT_NOTE, VERDICT_BAD };

struct finding {
	const char *check;
	enum verdict verdict;
	char *found;
	const char *remedy; /* NULL when all is well */
};

struct findings {
	struct finding *list;
	size_t n;
};

void findings_fini(struct findings *f);
/* `remedy` must outlive it; it is left out where the verdict is good. */
void findings_add(struct findings *f, const char *check, enum verdict verdict, const char *remedy,
	const char *fmt, ...) printf_like(5, 6);
bool findings_bad(const struct findings *f);
void findings_print(const struct findings *f, enum ctl_format format);

#endif
