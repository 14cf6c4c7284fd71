package lease_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"meridian.dev/meridian/kit/call"
	"meridian.dev/meridian/kit/lease"
)

// Whoever finds the lease free takes it, at exactly the version that was free.
func Example() {
	api := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		version, holder := "1", ""
		if in.Method == http.MethodPut {
			version, holder = "2", "me"
		}
		_, _ = fmt.Fprintf(out, `{"metadata":{"uid":"u","resourceVersion":%q},"spec":{"holderIdentity":%q}}`, version, holder)
	}))
	defer api.Close()
	client := &lease.Client{
		Server: &call.Server{URL: api.URL}, Namespace: "default", Name: "work", Annotation: "example.dev/record",
		Duration: 10 * time.Second, Now: time.Now,
	}
	ctx := context.Background()
	free, err := client.Get(ctx)
	if err != nil || free.Holder != "" {
		fmt.Println("not free:", err)
		return
	}
	taken, err := client.Update(ctx, free, lease.Change{Holder: "me", Transitions: free.Transitions + 1})
	switch call.OutcomeOf(err) {
	case call.Done:
		fmt.Println(taken.Holder, "holds version", taken.Version)
	case call.Refused:
		fmt.Println("somebody was faster")
	case call.Unknown:
		fmt.Println("read it until it has another version")
	}
	// Output: me holds version 2
}
