base_libbase_a_SOURCES += base/http1.c base/http1.h base/http1_body.c base/http1_emit.c base/http1_target.c
