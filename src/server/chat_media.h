// SPDX-License-Identifier: Apache-2.0
// server/chat_media.h - between stations 2 and 3 of docs/journey.md: the pictures and sounds of a chat
// request, fetched and prepared on threads of their own, and with them its prompt.
#pragma once

#include "base/result.h"
#include "server/chat_call.h"
#include "server/http/task.h"
#include "server/service.h"
#include "server/wire/chat_body.h"

namespace inkstone::server {

// What `mm_processor_kwargs` asks for.
Result<MediaRules> read_media_rules(const chat::Field& body);

// Refuses more media than a request may hold.
Status check_media(const Service& service, const chat::ChatRequest& request);

// References to media get the names that the client knows their fields by.
void name_media(chat::ChatRequest& request, const Origins& origins);

// Fills in the prompt and the media of a call that has neither yet; at once where there are no media. Errors
// name the part of the message.
Task<Status> complete_call(Service& service, ChatCall& call);

}  // namespace inkstone::server
