noinst_LIBRARIES += model/libmodel.a
model_libmodel_a_SOURCES = \
	model/allow_from.c model/allow_from.h \
	model/backend_tls.c model/backend_tls.h \
	model/bundle.c model/bundle.h \
	model/ca_list.c model/ca_list.h \
	model/check.c model/check.h \
	model/cluster/cluster.c model/cluster/cluster.h \
	model/cluster/cluster_backend_tls.c \
	model/cluster/cluster_callers.c \
	model/cluster/cluster_endpoint.c \
	model/cluster/cluster_index.c \
	model/cluster/cluster_join.c \
	model/cluster/cluster_limits.c \
	model/cluster/cluster_member.c \
	model/cluster/cluster_netpolicy.c \
	model/cluster/cluster_gateway.c \
	model/cluster/cluster_pod.c model/cluster/cluster_place.c model/cluster/cluster_near.c model/cluster/cluster_reason.c \
	model/cluster/cluster_private.h \
	model/cluster/cluster_route.c \
	model/cluster/cluster_route_order.c \
	model/cluster/cluster_route_private.h \
	model/cluster/cluster_route_ref.c \
	model/cluster/cluster_route_status.c \
	model/cluster/cluster_route_table.c \
	model/cluster/cluster_rule.c \
	model/dial_guard.c model/dial_guard.h \
	model/digest.c model/digest.h \
	model/envelope.c model/envelope.h \
	model/fake6.c model/fake6.h \
	model/health.c model/health.h \
	model/http_route.c model/http_route.h \
	model/http_route_build.c \
	model/http_route_filter.c \
	model/http_route_match.c \
	model/http_route_parse.c \
	model/http_route_parse_private.h \
	model/http_route_parse_rule.c \
	model/http_route_private.h \
	model/json.c model/json.h \
	model/json_guard.c \
	model/json_private.h \
	model/json_write.c \
	model/kube.h \
	model/kube_backend_tls.c \
	model/kube_endpoints.c \
	model/kube_netpolicy.c \
	model/kube_node.c \
	model/kube_pack.c \
	model/kube_pod.c \
	model/kube_policy.c \
	model/kube_private.h \
	model/kube_read.c \
	model/kube_route.c \
	model/kube_route_filter.c \
	model/kube_route_match.c \
	model/kube_route_private.h \
	model/kube_route_status.c \
	model/kube_rule.c \
	model/kube_service.c \
	model/limits.h \
	model/local_callers.c model/local_callers.h \
	model/mesh.h \
	model/pod_ask.h \
	model/pod_name.c model/pod_name.h \
	model/pod_ranges.c model/pod_ranges.h \
	model/route_regex.c model/route_regex.h \
	model/service.c model/service.h \
	model/selector.c model/selector.h \
	model/service_build.c \
	model/service_prefer.c model/service_prefer.h \
	model/shard.c model/shard.h \
	model/snapshot.c model/snapshot.h \
	model/span.c model/span.h \
	model/table.c model/table.h \
	model/view.c model/view.h \
	model/view_build.c \
	model/view_parse.c

FUZZERS += tests/fuzz/bundle_fuzz tests/fuzz/callers_fuzz tests/fuzz/envelope_fuzz tests/fuzz/health_fuzz tests/fuzz/route_fuzz tests/fuzz/view_fuzz
tests_fuzz_bundle_fuzz_SOURCES = tests/fuzz/bundle_fuzz.c
tests_fuzz_bundle_fuzz_LDADD = $(MODEL_LDADD)
tests_fuzz_callers_fuzz_SOURCES = tests/fuzz/callers_fuzz.c
tests_fuzz_callers_fuzz_LDADD = $(MODEL_LDADD)
tests_fuzz_envelope_fuzz_SOURCES = tests/fuzz/envelope_fuzz.c
tests_fuzz_envelope_fuzz_LDADD = $(MODEL_LDADD)
tests_fuzz_health_fuzz_SOURCES = tests/fuzz/health_fuzz.c
tests_fuzz_health_fuzz_LDADD = $(MODEL_LDADD)
tests_fuzz_route_fuzz_SOURCES = tests/fuzz/route_fuzz.c
tests_fuzz_route_fuzz_LDADD = $(MODEL_LDADD)
tests_fuzz_view_fuzz_SOURCES = tests/fuzz/view_fuzz.c
tests_fuzz_view_fuzz_LDADD = $(MODEL_LDADD)

if HAVE_CMOCKA
MODEL_TESTS = \
	tests/unit/model/bundle_test \
	tests/unit/model/check_test \
	tests/unit/model/cluster/cluster_backend_tls_test \
	tests/unit/model/cluster/cluster_address_test \
	tests/unit/model/cluster/cluster_dual_test \
	tests/unit/model/cluster/cluster_gateway_test \
	tests/unit/model/cluster/cluster_pod_test \
	tests/unit/model/cluster/cluster_random_test \
	tests/unit/model/cluster/cluster_reason_test \
	tests/unit/model/cluster/cluster_route_test \
	tests/unit/model/cluster/cluster_test \
	tests/unit/model/dial_guard_test \
	tests/unit/model/digest_test \
	tests/unit/model/fake6_test \
	tests/unit/model/envelope_test \
	tests/unit/model/health_test \
	tests/unit/model/http_route_test \
	tests/unit/model/json_test \
	tests/unit/model/kube_route_test \
	tests/unit/model/kube_rule_test \
	tests/unit/model/kube_test \
	tests/unit/model/allow_from_test \
	tests/unit/model/selector_test \
	tests/unit/model/service_test \
	tests/unit/model/service_tier_test \
	tests/unit/model/snapshot_test \
	tests/unit/model/view_test
KUBE_KIT = tests/unit/model/kube_kit.c tests/unit/model/kube_kit.h
check_PROGRAMS += $(MODEL_TESTS)
TESTS += $(MODEL_TESTS)
tests_unit_model_bundle_test_SOURCES = tests/unit/model/bundle_test.c
tests_unit_model_bundle_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_dial_guard_test_SOURCES = tests/unit/model/dial_guard_test.c
tests_unit_model_dial_guard_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_digest_test_SOURCES = tests/unit/model/digest_test.c
tests_unit_model_digest_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_envelope_test_SOURCES = tests/unit/model/envelope_test.c
tests_unit_model_envelope_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_fake6_test_SOURCES = tests/unit/model/fake6_test.c
tests_unit_model_fake6_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_health_test_SOURCES = tests/unit/model/health_test.c
tests_unit_model_health_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_check_test_SOURCES = tests/unit/model/check_test.c
tests_unit_model_check_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_cluster_cluster_backend_tls_test_SOURCES = tests/unit/model/cluster/cluster_backend_tls_test.c $(KUBE_KIT)
tests_unit_model_cluster_cluster_backend_tls_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_cluster_cluster_address_test_SOURCES = tests/unit/model/cluster/cluster_address_test.c $(KUBE_KIT)
tests_unit_model_cluster_cluster_address_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_cluster_cluster_dual_test_SOURCES = tests/unit/model/cluster/cluster_dual_test.c $(KUBE_KIT)
tests_unit_model_cluster_cluster_dual_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_cluster_cluster_gateway_test_SOURCES = tests/unit/model/cluster/cluster_gateway_test.c $(KUBE_KIT)
tests_unit_model_cluster_cluster_gateway_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_cluster_cluster_pod_test_SOURCES = tests/unit/model/cluster/cluster_pod_test.c $(KUBE_KIT)
tests_unit_model_cluster_cluster_pod_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_cluster_cluster_reason_test_SOURCES = tests/unit/model/cluster/cluster_reason_test.c $(KUBE_KIT)
tests_unit_model_cluster_cluster_reason_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_cluster_cluster_random_test_SOURCES = tests/unit/model/cluster/cluster_random_test.c $(KUBE_KIT)
tests_unit_model_cluster_cluster_random_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_cluster_cluster_route_test_SOURCES = tests/unit/model/cluster/cluster_route_test.c $(KUBE_KIT)
tests_unit_model_cluster_cluster_route_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_cluster_cluster_test_SOURCES = tests/unit/model/cluster/cluster_test.c $(KUBE_KIT)
tests_unit_model_cluster_cluster_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_http_route_test_SOURCES = tests/unit/model/http_route_test.c
tests_unit_model_http_route_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_json_test_SOURCES = tests/unit/model/json_test.c
tests_unit_model_json_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_kube_route_test_SOURCES = tests/unit/model/kube_route_test.c $(KUBE_KIT)
tests_unit_model_kube_route_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_kube_rule_test_SOURCES = tests/unit/model/kube_rule_test.c $(KUBE_KIT)
tests_unit_model_kube_rule_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_kube_test_SOURCES = tests/unit/model/kube_test.c $(KUBE_KIT)
tests_unit_model_kube_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_allow_from_test_SOURCES = tests/unit/model/allow_from_test.c $(KUBE_KIT)
tests_unit_model_allow_from_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_selector_test_SOURCES = tests/unit/model/selector_test.c
tests_unit_model_selector_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_service_tier_test_SOURCES = tests/unit/model/service_tier_test.c
tests_unit_model_service_tier_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_service_test_SOURCES = tests/unit/model/service_test.c
tests_unit_model_service_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_snapshot_test_SOURCES = tests/unit/model/snapshot_test.c
tests_unit_model_snapshot_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
tests_unit_model_view_test_SOURCES = tests/unit/model/view_test.c
tests_unit_model_view_test_LDADD = $(MODEL_LDADD) $(CMOCKA_LIBS)
endif

EXTRA_DIST += tests/data/kube
