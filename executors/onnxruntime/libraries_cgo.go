//go:build cgo

package onnxruntime

/*
#cgo linux LDFLAGS: -ldl
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Of the library's interface what this needs; it only ever grows at its end.
typedef struct {
	void *(*create_status)(void);
	int (*error_code)(const void *);
	const char *(*error_message)(const void *);
} Api;

typedef struct {
	const Api *(*api)(uint32_t version);
	const char *(*version)(void);
} Base;

typedef void *(*Register)(void *options, const Base *base);

// register_ops has a library add its operators to the options of a session. It gives why it
// cannot, to be freed. What is loaded stays.
static char *register_ops(const char *runtime, const char *path, void *options) {
	void *own = dlopen(runtime, RTLD_NOW | RTLD_LOCAL);
	if (own == NULL) return strdup(dlerror());
	const Base *(*base)(void) = (const Base *(*)(void))dlsym(own, "OrtGetApiBase");
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library == NULL) return strdup(dlerror());
	Register add = (Register)dlsym(library, "RegisterCustomOps");
	if (base == NULL || add == NULL) return strdup("it exports no RegisterCustomOps");
	void *status = add(options, base());
	return status == NULL ? NULL : strdup(base()->api(1)->error_message(status));
}
*/
import "C"

import (
	"errors"
	"reflect"
	"unsafe"

	ort "github.com/yalue/onnxruntime_go"
)

// register adds the operators of a library. The binding has no call for it, and keeps what the
// call is about in a field.
func register(lib Library, path string, o *ort.SessionOptions) error {
	options := reflect.ValueOf(o).Elem().FieldByName("o")
	if options.Kind() != reflect.Pointer || options.IsNil() {
		return errors.New("this binding of ONNX Runtime has no room for libraries")
	}
	runtime, library := C.CString(lib.Path), C.CString(path)
	defer C.free(unsafe.Pointer(runtime))
	defer C.free(unsafe.Pointer(library))
	why := C.register_ops(runtime, library, options.UnsafePointer())
	if why == nil {
		return nil
	}
	defer C.free(unsafe.Pointer(why))
	return errors.New(C.GoString(why))
}
