package freshtoken

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stripe/stripe-go/v83"

	"github.com/goretry/retry"
	"github.com/goretry/retry/hedge"
)

var policy = retry.Policy{MaxAttempts: 4}

func wrong(ctx context.Context, customers stripe.Customers, db *dynamodb.Client, h *hedge.Hedge) {
	_, _ = retry.Do(ctx, policy, func(ctx context.Context) (*stripe.Customer, error) {
		return customers.Create(ctx, &stripe.CustomerCreateParams{}) // want `another token, so that it may happen twice: set IdempotencyKey outside`
	})
	params := &stripe.CustomerCreateParams{}
	_, _ = retry.Do(ctx, retry.Policy{NonIdempotent: false}, func(ctx context.Context) (*stripe.Customer, error) {
		return customers.New(params) // want `set IdempotencyKey`
	})
	_, _ = retry.Do(ctx, policy.Named("transfer"), func(ctx context.Context) (*dynamodb.Output, error) {
		return db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []string{"a"}}) // want `set ClientRequestToken`
	})
	_ = retry.Run(ctx, policy, func(ctx context.Context) error {
		input := dynamodb.TransactWriteItemsInput{}
		input.TransactItems = append(input.TransactItems, "a")
		_, err := db.TransactWriteItems(ctx, &input) // want `set ClientRequestToken`
		return err
	})
	_, _ = hedge.Do(ctx, policy, h, func(ctx context.Context) (*stripe.Customer, error) {
		return customers.Create(ctx, &stripe.CustomerCreateParams{}) // want `set IdempotencyKey`
	})
}

func right(ctx context.Context, customers stripe.Customers, db *dynamodb.Client, key string, unknown retry.Policy, given *stripe.CustomerCreateParams) {
	_, _ = retry.Do(ctx, retry.Policy{NonIdempotent: true}, func(ctx context.Context) (*stripe.Customer, error) {
		return customers.Create(ctx, &stripe.CustomerCreateParams{})
	})
	_, _ = retry.Do(ctx, retry.Policy{MaxAttempts: 1}, func(ctx context.Context) (*stripe.Customer, error) {
		return customers.Create(ctx, &stripe.CustomerCreateParams{})
	})
	_, _ = retry.Do(ctx, unknown, func(ctx context.Context) (*stripe.Customer, error) {
		return customers.Create(ctx, &stripe.CustomerCreateParams{})
	})
	_, _ = retry.Do(ctx, policy, func(ctx context.Context) (*stripe.Customer, error) {
		return customers.Create(ctx, given)
	})
	_, _ = retry.Do(ctx, policy, func(ctx context.Context) (*stripe.Customer, error) {
		return customers.Create(ctx, &stripe.CustomerCreateParams{Params: stripe.Params{IdempotencyKey: &key}})
	})
	params := &stripe.CustomerCreateParams{}
	params.SetIdempotencyKey(key)
	_, _ = retry.Do(ctx, policy, func(ctx context.Context) (*stripe.Customer, error) {
		return customers.Create(ctx, params)
	})
	_, _ = retry.Do(ctx, policy, func(ctx context.Context) (*stripe.Customer, error) {
		_, _ = customers.List(ctx, &stripe.CustomerListParams{})
		return customers.Retrieve(ctx, "1", &stripe.CustomerRetrieveParams{})
	})
	_, _ = retry.Do(ctx, policy, func(ctx context.Context) (*stripe.Customer, error) {
		return customers.Delete(ctx, "1", &stripe.CustomerDeleteParams{})
	})
	input := &dynamodb.TransactWriteItemsInput{} // the SDK puts its token into it
	_, _ = retry.Do(ctx, policy, func(ctx context.Context) (*dynamodb.Output, error) {
		return db.TransactWriteItems(ctx, input)
	})
	_, _ = retry.Do(ctx, policy, func(ctx context.Context) (*dynamodb.Output, error) {
		input := &dynamodb.TransactWriteItemsInput{}
		input.ClientRequestToken = &key
		return db.TransactWriteItems(ctx, input)
	})
	_, _ = retry.Do(ctx, policy, func(ctx context.Context) (*dynamodb.Output, error) {
		return db.PutItem(ctx, &dynamodb.PutItemInput{})
	})
	_ = retry.Supervise(ctx, policy, 0, func(ctx context.Context) error {
		_, err := customers.Create(ctx, &stripe.CustomerCreateParams{})
		return err
	})
}
