package act

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"meridian.dev/meridian/internal/database"
	"meridian.dev/meridian/internal/database/render"
	"meridian.dev/meridian/internal/wire"
)

// passwordBytes of randomness go into a password: more than anyone can guess.
const passwordBytes = 24

// createBinding makes the credentials. It is a plain create: when they exist already, they stay as they are.
func (p *pass) createBinding(ctx context.Context) (database.Result, error) {
	bundle, err := p.bundle(ctx)
	if err != nil {
		return database.Result{}, err
	}
	if len(bundle) == 0 {
		return database.Result{}, errors.New("the authority that goes into it is not stored yet")
	}
	login, err := p.newLogin(p.design.Spec.Bootstrap.Owner, 0)
	if err != nil {
		return database.Result{}, err
	}
	// What is made new needs no rotation.
	rotation := database.Rotation{}
	if rotate := p.design.Spec.Rotate; rotate != nil && rotate.Password != "" {
		rotation = database.Rotation{Token: rotate.Password, Done: p.Now()}
	}
	return p.Write(ctx, render.Binding(p.design, login, rotation, bundle), nil)
}

// newLogin makes a password, with a number that is higher than those of before, also of a Secret that was deleted.
func (p *pass) newLogin(name string, before int64) (render.Login, error) {
	random := make([]byte, passwordBytes)
	if _, err := io.ReadFull(p.Random, random); err != nil {
		return render.Login{}, fmt.Errorf("make a password: %w", err)
	}
	return render.Login{
		Name: name, Password: base64.RawURLEncoding.EncodeToString(random), Number: max(p.Now().UnixMilli(), before+1),
	}, nil
}

// beginLogin makes the next credentials and writes them beside the present ones. This one write is all that knows them:
// when it fails, no server has ever heard of them, and when it is done, they are not made again.
func (p *pass) beginLogin(
	ctx context.Context, action database.Action, begin database.BeginLogin,
) (database.Result, error) {
	return p.editBinding(ctx, action, func(binding *corev1.Secret) error {
		present, _ := strconv.ParseInt(string(binding.Data[wire.KeyRotation]), 10, 64) // One from before has no number.
		name := wire.LoginAfter(string(binding.Data[wire.KeyUsername]), p.design.Spec.Bootstrap.Owner)
		next, err := p.newLogin(name, present)
		if err != nil {
			return err
		}
		render.PutNextLogin(binding, next)
		render.Note(binding, database.Rotation{Token: begin.Token, Number: next.Number, Began: p.Now()})
		return nil
	})
}

// moveLogin puts the next credentials in the place of the present ones, all keys in one write.
func (p *pass) moveLogin(
	ctx context.Context, action database.Action, move database.MoveLogin,
) (database.Result, error) {
	return p.editBinding(ctx, action, func(binding *corev1.Secret) error {
		next, found := render.NextLogin(binding)
		if !found || next.Number != move.Number {
			return moved(action, "other credentials are made ready")
		}
		rotation := render.RotationOf(binding)
		rotation.Done = p.Now()
		render.PutLogin(p.design, binding, next)
		render.Note(binding, rotation)
		return nil
	})
}

// publishBundle gives applications the authorities that are trusted now.
func (p *pass) publishBundle(ctx context.Context, action database.Action) (database.Result, error) {
	bundle, err := p.bundle(ctx)
	if err != nil {
		return database.Result{}, err
	}
	return p.PublishBundle(ctx, action, bundle, p.Now())
}

// bundle is what applications trust now, nothing if there is no authority.
func (p *pass) bundle(ctx context.Context) ([]byte, error) {
	var authority corev1.Secret
	if err := p.Secret(ctx, database.AuthorityName(p.design.Name), &authority); err != nil {
		return nil, err
	}
	state, err := render.Material(&authority, nil)
	if err != nil {
		return nil, fmt.Errorf("read the stored authorities: %w", err)
	}
	return state.Outside(), nil
}

// editBinding changes the Secret for applications as it was when the action was decided on, and nothing else of it:
// whoever has added to it keeps what is theirs.
func (p *pass) editBinding(
	ctx context.Context, action database.Action, edit func(*corev1.Secret) error,
) (database.Result, error) {
	var live corev1.Secret
	if err := p.ReadAsDecided(ctx, action, &live); err != nil {
		return database.Result{}, err
	}
	after := live.DeepCopy()
	if after.Data == nil {
		after.Data = map[string][]byte{}
	}
	if err := edit(after); err != nil {
		return database.Result{}, err
	}
	if equality.Semantic.DeepEqual(&live, after) {
		return database.Result{Done: true}, nil
	}
	return p.Patch(ctx, action, &live, after)
}
