/*
 * Kubernetes label selectors as text: "edge=true, tier in (a, b), tier notin (c), !old, disk!=hdd".
 * All requirements must hold; != and notin also match where the label is absent. Leaves.
 */
#ifndef EDGEWAY_MODEL_SELECTOR_H
#define EDGEWAY_MODEL_SELECTOR_H

#include "model/kube.h"

enum { SELECTOR_REQUIREMENTS_MAX = 32, SELECTOR_VALUES_MAX = 128 }; /* VALUES_MAX: total */

struct selector;

/* A text of blanks gives *s NULL, which selects everything. -EINVAL: err has the reason. */
int selector_parse(struct selector **s, const char *text, struct err *err);
void selector_free(struct selector **s);
/* labels NULL: none. */
bool selector_matches(const struct selector *s, const struct kube_labels *labels);

struct kube_labels kube_labels_copy(const struct kube_labels *labels);
void kube_labels_free(struct kube_labels *labels);
bool kube_labels_equal(const struct kube_labels *a, const struct kube_labels *b);

#endif
