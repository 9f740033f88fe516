base_libbase_a_SOURCES += base/http/grpc.c base/http/grpc.h base/http/frame_budget.c base/http/frame_budget.h base/http/h2.c base/http/h2.h base/http/h2_head.c \
	base/http/h2_preface.c base/http/h2_preface.h base/http/session_memory.c base/http/session_memory.h
