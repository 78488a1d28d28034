// SPDX-License-Identifier: Apache-2.0
// server/endpoints.h - every handler of the service; server/router.cc says which path leads to which.
#pragma once

#include "server/http/exchange.h"
#include "server/service.h"

namespace inkstone::server {

Task<> chat_completions(Service& service, Exchange& exchange);
Task<> completions(Service& service, Exchange& exchange);
Task<> responses(Service& service, Exchange& exchange);
Task<> messages(Service& service, Exchange& exchange);
Task<> count_message_tokens(Service& service, Exchange& exchange);

Task<> tokenize(Service& service, Exchange& exchange);
Task<> detokenize(Service& service, Exchange& exchange);
Task<> render(Service& service, Exchange& exchange);

Task<> list_models(Service& service, Exchange& exchange);
Task<> health(Service& service, Exchange& exchange);
Task<> ready(Service& service, Exchange& exchange);
Task<> version(Service& service, Exchange& exchange);
Task<> metrics_text(Service& service, Exchange& exchange);
Task<> page(Service& service, Exchange& exchange);

}  // namespace inkstone::server
