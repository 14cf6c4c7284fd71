package access

import (
	"strings"
	"time"

	"meridian.dev/meridian/api/v1alpha1"
	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/plan/draft"
	"meridian.dev/meridian/internal/service"
)

// rotate is what the spec asks for, also if it does not.
func rotate(d *draft.Draft) v1alpha1.Rotate {
	if d.Spec.Rotate == nil {
		return v1alpha1.Rotate{}
	}
	return *d.Spec.Rotate
}

// renewCertificates takes the next step of a rotation. kit/pki knows when the time for it has come; it is not taken
// before everyone has what the step before has brought.
func renewCertificates(d *draft.Draft) {
	certificates, token := d.Certificates, rotate(d).Certificates
	rotation := certificates.Rotation
	switch {
	case rotation.Asked(token):
	case rotation.UnderWay():
		token = rotation.Token
	default:
		return
	}
	if !rotation.UnderWay() || rotation.Token != token {
		renew(d, token)
		return
	}
	recheck, waiting := draft.Later, "a new authority is trusted, and signs when spec.rotate.overlap has passed"
	if !rotation.Signs.IsZero() {
		waiting = "the new authority signs, and the old one is trusted until spec.rotate.overlap has passed"
	}
	if behind := behind(d); behind != "" {
		recheck, waiting = draft.Soon, behind
	} else if len(certificates.Renewal) > 0 {
		renew(d, token)
	}
	d.Hold(database.Background, recheck, "RotatingCertificates", "certificates are rotated: "+waiting)
}

func renew(d *draft.Draft, token string) {
	authority := d.Certificates.Authority
	d.Change(database.Action{
		Do: database.StoreCertificates{Token: token}, Kind: database.KindSecret, Name: database.AuthorityName(d.Name),
		UID: authority.UID, ResourceVersion: authority.ResourceVersion,
		Why: "a rotation is asked for: " + strings.Join(d.Certificates.Renewal, "; "),
	})
}

// followIssuer takes the next step of a change of whom applications trust.
func followIssuer(d *draft.Draft) {
	authority := d.Certificates.Authority
	d.FollowIssuer(service.Following[database.Step]{
		Issuing: d.Certificates.Issuing, Behind: behind(d), Store: database.Action{
			Do: database.StoreCertificates{Issuer: true}, Name: database.AuthorityName(d.Name), UID: authority.UID,
			ResourceVersion: authority.ResourceVersion,
		},
	})
}

// behind names who has not got yet what is stored: the Secret for applications, or an instance that takes sessions.
func behind(d *draft.Draft) string {
	if untold := d.Certificates.Untold(); untold != "" {
		return untold
	}
	for _, instance := range d.Instances {
		if instance.Up() && instance.Report.Certificate != d.CertificateOf(instance).Identity {
			return instance.Name + " does not present the stored certificate yet"
		}
	}
	return ""
}

// PublishBundle keeps what applications trust as it is stored.
func PublishBundle(d *draft.Draft) {
	d.Draft.PublishBundle(d.Certificates, d.Binding, database.AuthorityName(d.Name), database.Action{
		Do: database.PublishBundle{}, Name: database.AppSecretName(d.Name),
	})
}

// RotateLogin gives applications another login: its password is written down first, then told to the server, then
// published. The login of before is left as it is.
func RotateLogin(d *draft.Draft) {
	binding, rotation, token := d.Binding, d.Credentials, rotate(d).Password
	action := database.Action{
		Kind: database.KindSecret, Name: database.AppSecretName(d.Name), UID: binding.UID,
		ResourceVersion: binding.ResourceVersion,
	}
	if d.Invalid || !binding.Exists || binding.Foreign != "" || binding.Deleting || d.Writes(action.Kind, action.Name) {
		return
	}
	switch {
	case !rotation.UnderWay() && !rotation.Asked(token):
	case d.Spec.Hibernated:
		d.Plan.Pending = append(d.Plan.Pending, "applications get another password when the database is awake")
	case !rotation.UnderWay():
		action.Do = database.BeginLogin{Token: token}
		action.Why = "another password is asked for; the other login gets it"
		d.Change(action)
	case lacksLogin(d, rotation.Number) == "":
		// Another wish that came meanwhile is carried out after this: the password that is made ready is in the Secret, and
		// whoever wants another one again may know why.
		action.Do = database.MoveLogin{Number: rotation.Number}
		action.Why = "every instance knows the next login; the one of before stays valid until the next rotation"
		d.Change(action)
	}
}

// TellLogin says what a rotation waits for, after what applications wait for.
func TellLogin(d *draft.Draft) {
	if d.Invalid || d.Stopped || d.Spec.Hibernated || !d.Credentials.UnderWay() {
		return
	}
	if lacking := lacksLogin(d, d.Credentials.Number); lacking != "" {
		d.Hold(database.Progressing, time.Second, "RotatingPassword", "applications get another password: "+lacking)
	}
}

// lacksLogin says who does not know the next login yet, empty if it can be published. It is published for the write
// address and for the read address alike.
func lacksLogin(d *draft.Draft, number int64) string {
	holder, _ := d.Instance(d.Lease.Holder)
	if !d.Serves(holder) {
		return "there is no primary that serves and could confirm the next login"
	}
	for _, instance := range d.Instances {
		if (instance.Up() || instance.Name == holder.Name) && instance.Report.Rotation != number {
			return instance.Name + " does not confirm the next login yet"
		}
	}
	return ""
}
