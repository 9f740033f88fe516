noinst_LIBRARIES += model/libmodel.a
model_libmodel_a_SOURCES = \
	model/check.c model/check.h \
	model/digest.c model/digest.h \
	model/envelope.c model/envelope.h \
	model/json.c model/json.h \
	model/mesh.h \
	model/service.c model/service.h \
	model/service_build.c \
	model/shard.c model/shard.h \
	model/snapshot.c model/snapshot.h \
	model/view.c model/view.h \
	model/view_json.c
