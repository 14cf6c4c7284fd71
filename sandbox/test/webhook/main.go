// Command webhook is an admission webhook for the test of the way from the API server to a pod: it refuses every
// object whose name begins with "refused". Its certificate comes from a mounted Secret.
package main

import (
	"encoding/json"
	"log"
	"net/http"
	"strings"
	"time"
)

// review is what this webhook needs of an AdmissionReview.
type review struct {
	APIVersion string    `json:"apiVersion"`
	Kind       string    `json:"kind"`
	Request    *request  `json:"request,omitempty"`
	Response   *response `json:"response,omitempty"`
}

type request struct {
	UID  string `json:"uid"`
	Name string `json:"name"`
}

type response struct {
	UID     string            `json:"uid"`
	Allowed bool              `json:"allowed"`
	Status  map[string]string `json:"status,omitempty"`
}

func main() {
	server := &http.Server{Addr: ":8443", Handler: http.HandlerFunc(answer), ReadHeaderTimeout: 5 * time.Second}
	log.Fatal(server.ListenAndServeTLS("/tls/tls.crt", "/tls/tls.key"))
}

func answer(w http.ResponseWriter, r *http.Request) {
	var asked review
	if err := json.NewDecoder(r.Body).Decode(&asked); err != nil || asked.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	said := response{UID: asked.Request.UID, Allowed: !strings.HasPrefix(asked.Request.Name, "refused")}
	if !said.Allowed {
		said.Status = map[string]string{"message": "the test's webhook says no"}
	}
	log.Printf("%s: allowed=%v", asked.Request.Name, said.Allowed)
	_ = json.NewEncoder(w).Encode(review{APIVersion: asked.APIVersion, Kind: asked.Kind, Response: &said})
}
