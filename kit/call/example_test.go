package call_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"meridian.dev/meridian/kit/call"
)

// A write meets an object that has changed since it was read. That it was not done is certain.
func Example() {
	api := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, _ *http.Request) {
		out.WriteHeader(http.StatusConflict)
		_, _ = out.Write([]byte(`{"kind":"Status","reason":"Conflict","message":"the object has been modified"}`))
	}))
	defer api.Close()
	server := &call.Server{URL: api.URL}
	_, err := server.Do(context.Background(), call.Request{
		Method: http.MethodPut, Path: "/api/v1/namespaces/default/configmaps/x", Body: []byte(`{}`),
	})
	fmt.Println(call.OutcomeOf(err), call.CodeOf(err))
	// Output: refused 409
}
