"""Serves a page of Django behind django-ratelimit, which counts in Django's cache: in Redis if STORE is set."""

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse
from django.urls import path
from django_ratelimit.decorators import ratelimit

cache = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "OPTIONS": {"MAX_ENTRIES": 1_000_000}}
if os.environ.get("STORE"):
    cache = {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": os.environ["STORE"]}
settings.configure(
    ALLOWED_HOSTS=["*"],
    CACHES={"default": cache},
    MIDDLEWARE=["django_ratelimit.middleware.RatelimitMiddleware"],
    RATELIMIT_VIEW="app.denied",
    ROOT_URLCONF="app",
    SECRET_KEY="it signs nothing here",
)


@ratelimit(key="header:x-api-key", rate="10/2s")
def page(request):
    return HttpResponse("Hello.\n")


def denied(request, exception):
    return HttpResponse("Too many requests.\n", status=429)


urlpatterns = [path("", page)]
app = get_wsgi_application()
