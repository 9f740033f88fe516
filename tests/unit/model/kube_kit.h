/* Objects as text, for the tests of model/kube and model/cluster. */
#ifndef EDGEWAY_TESTS_KUBE_KIT_H
#define EDGEWAY_TESTS_KUBE_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/cluster/cluster.h"

#define SERVICE(name, rest)                                                                        \
	"---\napiVersion: v1\nkind: Service\nmetadata: {name: " name "}\nspec: {" rest "}\n"
#define SLICE_OF(family, name, service, ports, endpoints)                                          \
	"---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\naddressType: " family "\n"     \
	"metadata: {name: " name ", labels: {kubernetes.io/service-name: " service "}}\n"          \
	"ports: [" ports "]\nendpoints: [" endpoints "]\n"
#define SLICE(...) SLICE_OF("IPv4", __VA_ARGS__)
#define SLICE6(...) SLICE_OF("IPv6", __VA_ARGS__)
#define NODE(name, labels, addresses)                                                              \
	"---\napiVersion: v1\nkind: Node\nmetadata: {name: " name ", labels: {" labels "}}\n"      \
	"status: {addresses: [" addresses "]}\n"

/* Complaints, if any, stay in the batch; text that is no YAML fails the test. */
void kit_read(struct kube_batch *b, const char *source, const char *yaml);
/* A file of tests/data/kube: objects of a real API server, shortened. */
void kit_read_data(struct kube_batch *b, const char *name);
/* `source` says these objects now, and no others; a complaint fails the test. */
void kit_say(struct cluster *c, const char *source, const char *yaml);
/* Number of changes waiting, which are dropped. */
size_t kit_drop_changes(struct cluster *c);

/* A new one for each test: cmocka's setup and teardown. */
extern struct cluster *kit_cluster;
int kit_setup(void **state);
int kit_teardown(void **state);

#endif
