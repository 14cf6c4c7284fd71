package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/admit"
)

// longestReview is more than the API server ever sends: an object of at most 1.5 MiB, before and after.
const longestReview = 8 << 20

// judge says what is wrong with an object that arrives.
type judge func(ctx context.Context, request *admissionv1.AdmissionRequest) ([]admit.Problem, error)

// Handler answers at the addresses that the configuration names. The reader is asked for facts about storage.
func Handler(reader client.Reader) http.Handler {
	facts := factReader{reader}
	mux := http.NewServeMux()
	for _, kind := range kinds {
		mux.Handle("POST "+kind.path, answer(kind.judge(facts)))
	}
	return mux
}

func (f factReader) judgeDatabase(ctx context.Context, request *admissionv1.AdmissionRequest) ([]admit.Problem, error) {
	wanted, old := &v1alpha1.GeoDatabase{}, &v1alpha1.GeoDatabase{}
	updated, err := decode(request, wanted, old)
	if err != nil {
		return nil, err
	}
	if !updated {
		old = nil
	}
	return admit.Database(wanted, old, f.read(ctx, types.NamespacedName{
		Namespace: request.Namespace, Name: request.Name,
	})), nil
}

func judgeCache(_ context.Context, request *admissionv1.AdmissionRequest) ([]admit.Problem, error) {
	wanted, old := &v1alpha1.GeoCache{}, &v1alpha1.GeoCache{}
	updated, err := decode(request, wanted, old)
	if err != nil {
		return nil, err
	}
	if !updated {
		old = nil
	}
	return admit.Cache(wanted, old, admit.Facts{}), nil
}

// decode fills in the object as it is wanted and, for an update, as it is stored.
func decode(request *admissionv1.AdmissionRequest, wanted, old runtime.Object) (updated bool, err error) {
	if err := json.Unmarshal(request.Object.Raw, wanted); err != nil {
		return false, fmt.Errorf("decode the object: %w", err)
	}
	if request.Operation != admissionv1.Update {
		return false, nil
	}
	if err := json.Unmarshal(request.OldObject.Raw, old); err != nil {
		return false, fmt.Errorf("decode the stored object: %w", err)
	}
	return true, nil
}

// answer speaks the protocol of the API server around a judge. A request that makes no sense is an error of HTTP, which
// the API server treats as if the webhook were away.
func answer(judge judge) http.Handler {
	return http.HandlerFunc(func(writer http.ResponseWriter, httpRequest *http.Request) {
		content, err := io.ReadAll(http.MaxBytesReader(writer, httpRequest.Body, longestReview))
		if err != nil {
			http.Error(writer, "read the review: "+err.Error(), http.StatusBadRequest)
			return
		}
		review := &admissionv1.AdmissionReview{}
		if err := json.Unmarshal(content, review); err != nil || review.Request == nil {
			http.Error(writer, "the body is not an AdmissionReview", http.StatusBadRequest)
			return
		}
		problems, err := judge(httpRequest.Context(), review.Request)
		if err != nil {
			http.Error(writer, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = verdict(review.Request.UID, problems)
		review.Request = nil
		writer.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(writer).Encode(review) // The other side has gone if this fails.
	})
}

func verdict(uid types.UID, problems []admit.Problem) *admissionv1.AdmissionResponse {
	if len(problems) == 0 {
		return &admissionv1.AdmissionResponse{UID: uid, Allowed: true}
	}
	causes := make([]metav1.StatusCause, 0, len(problems))
	for _, problem := range problems {
		causes = append(causes, metav1.StatusCause{
			Type: metav1.CauseTypeFieldValueInvalid, Field: problem.Field, Message: problem.Detail,
		})
	}
	return &admissionv1.AdmissionResponse{UID: uid, Result: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid,
		Message: admit.Message(problems), Details: &metav1.StatusDetails{Causes: causes},
	}}
}
